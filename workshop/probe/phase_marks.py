"""Ranges in a trace of torch.profiler, one for each phase of the training thread, named after it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.profiler import record_function

from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import MARK, Phase


class PhaseMarks:
    """Marks the phases of the training thread in a trace; the time between them has no range.

    Args:
        clock: tells of the phases.
        guarded: wraps what the script's own calls run, so that it raises nothing there.
    """

    def __init__(self, clock: PhaseClock, guarded: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._clock, self._guarded = clock, guarded
        self._open = list[record_function]()
        with record_function(MARK):  # the first one of a process takes some milliseconds
            pass

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Mark each phase from now on; what is still open in the end is closed."""
        clock, before = self._clock, (self._clock.on_enter, self._clock.on_leave)
        clock.on_enter, clock.on_leave = self._guarded(self._enter), self._guarded(self._leave)
        try:
            yield
        finally:
            clock.on_enter, clock.on_leave = before
            self.close()

    def close(self) -> None:
        """Close all that are open, the innermost first."""
        while self._open:
            self._open.pop().__exit__(None, None, None)

    def _enter(self, phase: Phase) -> None:
        validates = self._clock.counted_phase is Phase.VALIDATION
        mark = record_function(f"{MARK}{Phase.VALIDATION if validates else phase}")
        mark.__enter__()
        self._open.append(mark)

    def _leave(self, _: Phase) -> None:
        if self._open:  # else it was entered before
            self._open.pop().__exit__(None, None, None)
