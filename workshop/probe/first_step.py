"""Notes when the first training step of a run is over, and is out of the way from then on."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from workshop.probe import earlier_cells
from workshop.probe.internals import loader_iterators
from workshop.probe.replaced_function import replace_function

TORCH, STEP = "torch-is-loaded", "first-step-is-over"
"""The names of the files that are made when torch is loaded, and when the first step is over."""


def note_first_step(torch: Any, folder: str) -> None:
    """Make a file as soon as a backward pass is over, or the second batch of a loop is there, in any process.

    The hooks of `measure` would do it, too, but to remove them makes torch.compile compile once more.
    """
    _make(Path(folder, TORCH))
    undo: list[Callable[[], None]] = []
    begun = WeakSet[Any]()

    def is_second(iterator: Any) -> bool:
        """Return whether a batch is not the first of its loop: scripts, and notebooks more so, look at one."""
        is_known = iterator in begun
        begun.add(iterator)
        return is_known

    def after(owner: Any, name: str, is_step: Callable[..., bool] = lambda *_, **__: True) -> None:
        """End the watch when a function has been called, as a step does it."""
        original = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            result = original(*args, **options)
            is_seen = undo and not earlier_cells.are_running and not torch.compiler.is_compiling()
            if is_seen and is_step(*args, **options):
                end()
            return result

        undo.append(replace_function(owner, name, counted))

    def end() -> None:
        put_back, undo[:] = [*undo], []
        _make(Path(folder, STEP))
        for each in put_back:
            each()

    after(torch.autograd, "backward")
    after(torch.autograd, "grad")
    after(loader_iterators()[0], "__next__", is_second)


def _make(path: Path) -> None:
    with suppress(OSError):  # the run is over for whoever recorded it, or the disk is full; the script goes on
        path.touch()
