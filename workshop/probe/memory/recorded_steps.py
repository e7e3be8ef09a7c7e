"""Decides which steps are recorded: the first ones, later ones where it is cheap, and one if it is asked for."""

from statistics import median
from time import monotonic  # the script may replace that of the module

from workshop.probe.listener import Listener
from workshop.probe.memory.memory_notes import SegmentName
from workshop.probe.memory.segments import Segments
from workshop.probe.messages import LookForHolders, SetStage

MAX_OVERHEAD = 0.05
"""Share of the time, at most, that recorded steps take more than others."""

ALSO_RECORDED, MIN_PLAIN = (2, 3), 3
"""The steps that are recorded beside the first, and how many are not, at least, before the next, so that it is known
how long they take. Of two in a row, the second shows what is kept of the first; the allocator is not asked in it, as
scopes of the first may still be open."""

MAX_PLAIN = 31
"""Steps, at most, that were not recorded and whose times are remembered."""


class RecordedSteps(Listener):
    """Begins the segment of a step when the step before was reported.

    Attributes:
        is_last_wanted: whether the next recorded step is to be looked at whole.
        is_put_off: whether a step is recorded from its first forward pass on, as it has not begun to compute.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.is_last_wanted = self.is_put_off = self._was_recorded = self._was_last = False
        self._plain_s: list[float] = []
        self._next_s = self._ended_s = monotonic()

    def on_begin(self) -> None:
        """Begin to record the first step."""
        if self._segments.name is SegmentName.START:
            self._segments.end()
        self._segments.lives.step = 0
        self._segments.begin(SegmentName.TRAINING)

    def on_fault(self, fault: str) -> None:
        """Record nothing more: it would go on for ever, and take more and more memory."""
        self._segments.name = None
        self._segments.allocator.give_up()
        self._segments.lives.end()

    def on_stage(self, stage: SetStage) -> None:
        """Have one more step recorded, if holders are to be looked for in it."""
        self.is_last_wanted = isinstance(stage, LookForHolders)

    def put_off(self) -> None:
        """Record a step that has not begun to compute from its first forward pass on."""
        self._segments.leave()
        self._segments.lives.dead = []
        self.is_put_off = True
        self.is_last_wanted, self._segments.is_last = self._segments.is_last, False

    def go_on(self) -> None:
        """Record a step from its first forward pass on, if it was put off, or if every one is recorded."""
        if self._segments.every_step or self.is_put_off:
            self._segments.is_last = self.is_put_off and self.is_last_wanted
            self.is_put_off = self.is_last_wanted = False
            self._segments.begin(SegmentName.TRAINING)

    def end(self, steps: int) -> None:
        """End the segment of the steps that are over."""
        segments = self._segments
        self._was_recorded, self._was_last = segments.name is not None, segments.is_last
        self.is_put_off = False
        segments.steps += steps
        if self._was_recorded:
            segments.end()
        segments.look.step_ends()

    def on_step_end(self, steps: int) -> None:
        """Begin to record the next step, if it is due."""
        segments, now = self._segments, monotonic()
        if self._was_last or segments.steps <= ALSO_RECORDED[-1] + 1:  # no part of what is spent again and again
            self._next_s = now
        elif self._was_recorded:
            excess_s = now - self._ended_s - (median(self._plain_s) if self._plain_s else 0.0)
            self._next_s = now + max(excess_s, 0.0) / MAX_OVERHEAD
        else:
            self._plain_s = [*self._plain_s[1 - MAX_PLAIN :], (now - self._ended_s) / steps]
        self._ended_s = now
        segments.lives.step = segments.steps
        if segments.lives.fault is None and self._is_due(now):
            segments.is_last, self.is_last_wanted = self.is_last_wanted, False
            segments.begin(SegmentName.TRAINING, asks=not self._was_recorded)

    def _is_due(self, now: float) -> bool:
        if self._segments.every_step or self._segments.steps in ALSO_RECORDED:
            return True
        is_cheap = len(self._plain_s) >= MIN_PLAIN and now >= self._next_s
        return not self._was_recorded and (is_cheap or self.is_last_wanted)


class StepEnds(Listener):
    """Ends the segment of a step before the step is reported, as its end takes time, too."""

    def __init__(self, steps: RecordedSteps) -> None:
        self._steps = steps

    def on_step_end(self, steps: int) -> None:
        """End it."""
        self._steps.end(steps)
