"""Allocations that fail, and end a script."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

NO_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception says that there is no memory left."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(each in str(error) for each in NO_MEMORY)


def first_line(error: BaseException) -> str:
    """Return what an exception says, as far as it is worth noting."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def watch_uncaught(note: Callable[[BaseException, TracebackType | None], None]) -> None:
    """Have each exception noted that ends the script, before that is printed."""
    original = sys.excepthook

    def noting(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        note(error, trace)
        return original(kind, error, trace)

    sys.excepthook = noting
