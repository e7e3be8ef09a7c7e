"""What a check comes to, as data: an outcome, why, and the figures it rests on."""

import enum
from dataclasses import asdict, dataclass, field
from typing import Any


class Outcome(enum.Enum):
    """How a check ends; its exit code is stable."""

    DONE = "done"
    NOT_YET = "not there yet"
    OTHER_WORK = "not the same work"
    UNDECIDED = "undecided"
    BROKEN = "broken"

    @property
    def exit_code(self) -> int:
        """2 is left to wrong usage."""
        return {"done": 0, "not there yet": 1, "not the same work": 3, "undecided": 4, "broken": 5}[self.value]


@dataclass(frozen=True)
class Speed:
    """A measured race. Rates are in samples per second, phases in seconds an epoch."""

    original: str
    """What the candidate was raced against."""
    rate_before: float
    rate_after: float
    ratio: float
    low: float
    """Of the ratio's 95 % interval."""
    high: float
    pairs: int
    target: float
    phases_before: dict[str, float]
    phases_after: dict[str, float]
    headroom_rate: float | None
    """What the untouched script's loop reaches with its batches in memory."""
    solution_ratio: float | None
    """What the solution reached on this machine."""


@dataclass(frozen=True)
class Verdict:
    """The end of a check."""

    subject: str
    """The part, or the script."""
    outcome: Outcome
    reasons: tuple[str, ...]
    """Sentences, the most important first."""
    speed: Speed | None = None
    next: str = ""
    """What to look at next."""
    output: str = ""
    """The end of what the script printed, if it broke."""
    shares: dict[str, float] = field(default_factory=dict)
    """How busy what was, from 0 to 1."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `exit_code` comes along."""
        return {**asdict(self), "outcome": self.outcome.value, "exit_code": self.outcome.exit_code}
