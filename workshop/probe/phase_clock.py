"""The clock that cuts the time of the training thread into phases."""

import threading
from collections.abc import Callable
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch

from workshop.probe.phases import Phase


class PhaseClock:
    """Adds up the seconds that the training thread spends in each phase; their sum is the wall clock's time.

    Attributes:
        synchronize: wait for the GPU at each border of two phases, so that its work counts to the phase that asked
            for it.
        on_enter: called with a phase just before it begins on the training thread.
        on_leave: called with a phase just after it has ended there.
        thread: the identity of the thread that trains.
    """

    def __init__(self) -> None:
        self.synchronize = False
        self.on_enter: Callable[[Phase], None] | None = None
        self.on_leave: Callable[[Phase], None] | None = None
        self.adopt_thread()
        self.restart()

    def adopt_thread(self) -> None:
        """Take the present thread for the one that trains."""
        self.thread = threading.get_ident()

    def restart(self) -> None:
        """Forget everything; "other" begins now."""
        self._seconds = dict.fromkeys(Phase, 0.0)
        self._stack = [Phase.OTHER]
        self._validates = False
        self._last_wait_s = 0.0
        self._since = monotonic()

    @property
    def phase(self) -> Phase:
        """The phase that the training thread is in."""
        return self._stack[-1]

    def is_training_thread(self) -> bool:
        """Return whether the present thread is the one that trains."""
        return threading.get_ident() == self.thread

    def validate(self, validates: bool, waited: bool = False) -> None:
        """Begin or end a validation. Other threads than the one that trains are ignored.

        Args:
            validates: whether it begins.
            waited: the last data wait was for its first batch, and belongs to it.
        """
        if validates != self._validates and self.is_training_thread():
            self._account()
            self._validates = validates
            if waited:
                self._seconds[Phase.VALIDATION] += self._last_wait_s
                self._seconds[Phase.DATA_WAIT] -= self._last_wait_s
            self._last_wait_s = 0.0

    def enter(self, phase: Phase) -> None:
        """Begin a phase inside the present one. Other threads than the one that trains are ignored."""
        if threading.get_ident() == self.thread:
            if self.on_enter:
                self.on_enter(phase)
            self._account()
            self._stack.append(phase)

    def leave(self) -> None:
        """End the present phase. Other threads than the one that trains are ignored."""
        if threading.get_ident() == self.thread:
            passed_s = self._account()
            if len(self._stack) > 1:
                phase = self._stack.pop()
                if phase is Phase.DATA_WAIT:
                    self._last_wait_s = passed_s
                if self.on_leave:
                    self.on_leave(phase)

    def leave_all(self, phase: Phase) -> None:
        """End a phase as often as it was entered, also where an exception has skipped its end."""
        while self.is_training_thread() and self.phase == phase:
            self.leave()

    def call(self, phase: Phase, function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        """Call a function in a phase, and return what it returns."""
        self.enter(phase)
        try:
            return function(*args, **options)
        finally:
            self.leave()

    def cut(self, until_s: float | None = None) -> dict[str, float]:
        """Return the seconds in each phase since the last cut, or since the clock was started.

        Args:
            until_s: an earlier moment of the monotonic clock in the present phase, where the cut is made; None for now.
        """
        self._account(until_s)
        seconds, self._seconds, self._last_wait_s = self._seconds, dict.fromkeys(Phase, 0.0), 0.0
        return {str(phase): each for phase, each in seconds.items()}

    def leave_out(self, seconds: float) -> None:
        """Let the last seconds belong to no phase. Other threads than the one that trains are ignored."""
        if self.is_training_thread():
            self._since += seconds

    @property
    def counted_phase(self) -> Phase:
        """The phase that the present time counts to: while the model is validated, whatever is done is validation."""
        return Phase.VALIDATION if self._validates else self._stack[-1]

    def _account(self, until_s: float | None = None) -> float:
        """Let the time since the last call count to the present phase, and return it in seconds."""
        if self.synchronize and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()
        passed_s = max((monotonic() if until_s is None else until_s) - self._since, 0.0)
        self._seconds[self.counted_phase] += passed_s
        self._since += passed_s
        return passed_s
