"""Notes when the first training step of a run is over, and is out of the way from then on."""

import functools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TORCH, STEP = "torch-is-loaded", "first-step-is-over"
"""The names of the files that are made when torch is loaded, and when the first step is over."""


def note_first_step(torch: Any, folder: str) -> None:
    """Make a file as soon as a backward pass is over, or the second batch is asked for, in any process of the run.

    Args:
        torch: the module.
        folder: where the files are made.
    """
    _make(Path(folder, TORCH))
    FirstStep(Path(folder, STEP), torch.compiler.is_compiling).watch(torch)


class FirstStep:
    """Watches for the end of the first step.

    Args:
        path: the file that is made then.
        is_compiling: whether torch.compile reads the present call, instead of running it.
    """

    def __init__(self, path: Path, is_compiling: Callable[[], bool]) -> None:
        self._path, self._is_compiling = path, is_compiling
        self._batches = 0
        self._undo: list[Callable[[], None]] = []

    def watch(self, torch: Any) -> None:
        """Put a wrapper around backward passes and around the loading of batches."""
        for name in ("backward", "grad"):
            self._after(torch.autograd, name, 1)
        if iterators := getattr(torch.utils.data.dataloader, "_BaseDataLoaderIter", None):  # torch's own business
            self._after(iterators, "__next__", 2)

    def _after(self, owner: Any, name: str, times: int) -> None:
        """Have a function end the watch when it has been called some times."""
        original, left = getattr(owner, name), times

        @functools.wraps(original)
        def counted(*args: Any, **options: Any) -> Any:
            nonlocal left
            result = original(*args, **options)
            if self._undo and not self._is_compiling():
                left -= 1
                if left <= 0:
                    self._end()
            return result

        def undo() -> None:
            if getattr(owner, name) is counted:  # else somebody else has put another wrapper around it
                setattr(owner, name, original)

        setattr(owner, name, counted)
        self._undo.append(undo)

    def _end(self) -> None:
        undo, self._undo = self._undo, []
        _make(self._path)
        for each in undo:
            each()


def _make(path: Path) -> None:
    with suppress(OSError):  # the run is over for whoever recorded it, or the disk is full; the script goes on
        path.touch()
