"""Notes when the first training step of a run is over, and is out of the way from then on."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from workshop.probe import earlier_cells
from workshop.probe.internals import loader_iterators
from workshop.probe.replaced_function import replace_function

TORCH, STEP = "torch-is-loaded", "first-step-is-over"
"""The names of the files that are made when torch is loaded, and when the first step is over."""


def note_first_step(torch: Any, folder: str) -> None:
    """Make a file as soon as a backward pass is over, or the second batch is asked for, in any process of the run.

    The hooks of `measure` would do it, too, but to remove them makes torch.compile compile once more.
    """
    _make(Path(folder, TORCH))
    undo: list[Callable[[], None]] = []

    def after(owner: Any, name: str, calls: int) -> None:
        """End the watch when a function has been called some times."""
        original, left = getattr(owner, name), calls

        def counted(*args: Any, **options: Any) -> Any:
            nonlocal left
            result = original(*args, **options)
            if undo and not earlier_cells.are_running and not torch.compiler.is_compiling():
                left -= 1
                if left <= 0:
                    end()
            return result

        undo.append(replace_function(owner, name, counted))

    def end() -> None:
        put_back, undo[:] = [*undo], []
        _make(Path(folder, STEP))
        for each in put_back:
            each()

    after(torch.autograd, "backward", 1)
    after(torch.autograd, "grad", 1)
    after(loader_iterators()[0], "__next__", 2)


def _make(path: Path) -> None:
    with suppress(OSError):  # the run is over for whoever recorded it, or the disk is full; the script goes on
        path.touch()
