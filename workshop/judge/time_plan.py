"""The time that a comparison may take: how much it needs, how much is left, and whether what comes next fits."""

import math
import time

from workshop.judge.race import MIN_PAIRS
from workshop.judge.reasons import Reason, ReasonKind

MAX_EPOCHS = 60
"""Epochs of the original that fit into the budget: an epoch takes a 60th of it at most. Where a small speedup is
confirmed, the two scripts train 31 epochs together, are started twice, and recompute steps; and the epoch that was cut
is a step or two longer."""

ORIGINAL_EPOCHS, CANDIDATE_EPOCHS = 12, 9
"""Epochs that each script trains until a race of three pairs is over, if a pair is an epoch of each."""

PART_S = 60.0
"""Seconds, at most, that the check of a solved part takes without a word of how long it will."""

FIRST_EPOCHS = 2
"""Epochs for which a script that was just started warms up; they are watched but not raced."""

EPOCHS_AFTER_RACE = 1
"""Epochs after the race: one of the original shows the headroom."""


class TimeReason(ReasonKind):
    """What is said of the time of a comparison."""

    BUDGET_TOO_SMALL = "{epoch}: at least {at_least_s:.0f} s in all, and the budget is {budget_s:g} s"
    TOO_LITTLE_LEFT = (
        "{what} does not fit into the {left_s:.0f} s that are left of {budget_s:g} s: epochs took {original_s:.1f} s "
        "and {candidate_s:.1f} s"
    )
    ALLOW_MORE = "Allow it more time, such as --budget {enough_s}."


class OutOfTimeError(Exception):
    """What comes next in a comparison would end after its time is over."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class TimePlan:
    """The time of a comparison, which begins now.

    Attributes:
        original_s, candidate_s: the seconds of an epoch of each script, as they were seen last; 0 if none was seen.
    """

    def __init__(self, budget_s: float) -> None:
        self.budget_s = budget_s
        self._begin_s = time.monotonic()
        self._needed_s = budget_s
        self.original_s = self.candidate_s = 0.0

    @property
    def left_s(self) -> float:
        """The seconds that are left of the time."""
        return self._begin_s + self.budget_s - time.monotonic()

    @property
    def left(self) -> str:
        """How much the rest will take, for a line of progress."""
        end_s = self._begin_s + min(self._needed_s, self.budget_s)
        return f"about {max(end_s - time.monotonic(), 1.0):.0f} s left"

    def estimate(self, original: str, steps: int, whole_steps: int | None = None) -> str:
        """Say how long the comparison will take, after the first epoch of the original.

        That has so many `steps`, of the `whole_steps` of an epoch of its DataLoader, as far as these are known.

        Raises:
            OutOfTimeError: it would take longer than it may, even if the candidate took no time at all.
        """
        passed_s = self.budget_s - self.left_s
        length = f" ({steps} step{'s' * (steps > 1)})"
        if whole_steps and whole_steps > steps:
            length = f", cut to {steps} of its {whole_steps} steps,"
        epoch = f"the first epoch of {original}{length} took {self.original_s:.1f} s"
        at_least_s = passed_s + (ORIGINAL_EPOCHS - 1) * self.original_s
        self._needed_s = at_least_s + CANDIDATE_EPOCHS * self.original_s
        if at_least_s > self.budget_s:
            figures = {"epoch": epoch, "at_least_s": at_least_s, "budget_s": self.budget_s}
            raise OutOfTimeError(TimeReason.BUDGET_TOO_SMALL(**figures))
        about_s = min(self._needed_s, self.budget_s)
        longest = f"--budget N allows more or less than {self.budget_s:g} s"
        return f"{epoch}: about {about_s:.0f} s in all, more for a small speedup; {longest}"

    def expect(self, epochs: int) -> None:
        """Note that this many epochs of each script are left."""
        self._needed_s = self.budget_s - self.left_s + epochs * (self.original_s + self.candidate_s)

    def fits(self, epochs: int) -> bool:
        """Return whether this many epochs of each script fit into what is left."""
        return epochs * (self.original_s + self.candidate_s) <= self.left_s

    def require(self, epochs: int, what: str) -> None:
        """Raise an `OutOfTimeError` if this many epochs of each script do not fit into what is left."""
        if not self.fits(epochs):
            seen = {"original_s": self.original_s, "candidate_s": self.candidate_s, "budget_s": self.budget_s}
            raise OutOfTimeError(TimeReason.TOO_LITTLE_LEFT(what=what, left_s=max(self.left_s, 0.0), **seen))

    @property
    def advice(self) -> Reason:
        """How to allow more time."""
        return TimeReason.ALLOW_MORE(enough_s=10 * math.ceil(max(2 * self.budget_s, self._needed_s) / 10))


def why_long(passed_s: float, original_s: float, candidate_s: float, solution: bool) -> str:
    """Say about how long the check of a part will take, and why, where that is more than a minute; "" where it is not.

    Args:
        passed_s: The seconds until the scripts have warmed up.
        original_s: The seconds of an epoch of the original.
        candidate_s: The seconds of an epoch of the candidate.
        solution: Whether the solution is timed as well.
    """
    pairs = MIN_PAIRS + EPOCHS_AFTER_RACE
    alone_s = passed_s + candidate_s + pairs * (original_s + candidate_s)  # it may train once more before the race
    start_s = max(passed_s - original_s - candidate_s, 0.0)
    about_s = alone_s + (start_s + (FIRST_EPOCHS + MIN_PAIRS) * candidate_s) * solution
    if about_s <= PART_S:
        return ""
    reasons = [f"the first epochs took {original_s:.1f} s unchanged and {candidate_s:.1f} s now"] * (alone_s > PART_S)
    reasons += ["the solution is timed, too, to see what this machine allows"] * solution
    return f"This takes about {about_s:.0f} s: {', and '.join(reasons)}."
