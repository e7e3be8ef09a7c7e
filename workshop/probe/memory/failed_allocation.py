"""Allocations that fail, and end a script."""

import os
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from workshop.probe.audience import Audience
from workshop.probe.listener import Listener
from workshop.probe.memory.memory_notes import SegmentName
from workshop.probe.memory.segments import Segments

NO_MEMORY = ("out of memory", "can't allocate memory", "Cannot allocate memory")


class FailedAllocations(Listener):
    """Has a segment noted when an allocation has failed, with what there was; once a step, in which others fail, too.

    Attributes:
        segments: what is recorded.
    """

    segments: Segments

    def __init__(self, audience: Audience) -> None:
        self._audience, self._pid, self._has_failed = audience, os.getpid(), False

    def on_begin(self) -> None:
        """Have it known when an exception ends the script."""
        watch_uncaught(self._on_uncaught)

    def on_step_end(self, steps: int) -> None:
        """Whatever has failed, the script goes on."""
        self._has_failed = False

    def on_failure(self, error: Exception) -> None:
        """Note what there is when an allocation has failed in a recorded step."""
        with self._audience:
            if self.segments.name not in (None, SegmentName.START) and self._is_new(error):
                self.segments.end(first_line(error))

    def _on_uncaught(self, error: BaseException, trace: TracebackType | None) -> None:
        """Note what there was when an allocation has failed in any other step, and ended the script."""
        with self._audience:
            if os.getpid() == self._pid and self._is_new(error):
                segments = self.segments
                segments.look.failed_frames = tuple(frame for frame, _ in traceback.walk_tb(trace))
                segments.name, segments.is_last = None, True
                segments.lives.step = segments.steps
                segments.begin(SegmentName.TRAINING)
                segments.end(first_line(error))

    def _is_new(self, error: BaseException) -> bool:
        if self._has_failed or not is_out_of_memory(error):
            return False
        self._has_failed = True
        return True


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
