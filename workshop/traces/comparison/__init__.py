"""What changed between two runs, by their traces: how long a step takes, what it is made of, and what is noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workshop import noise
from workshop.traces.breakdown import Row
from workshop.traces.comparison.step_times import TABLES, StepTimes, has_steps, step_times
from workshop.traces.decoding import TraceError
from workshop.traces.intervals import Ints
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank


@dataclass(frozen=True)
class TimeChange:
    """A time in a mean step of one rank before and after, in ns."""

    name: str
    before_ns: float
    after_ns: float
    margin_ns: float
    """Half the width of the confidence interval of the difference; not a number where there is one step only."""

    @property
    def difference_ns(self) -> float:
        """How much longer it takes after."""
        return self.after_ns - self.before_ns

    @property
    def worth_a_word_ns(self) -> float:
        """Nanoseconds, a hundredth of the longer one: a part that changed by less is not worth a word."""
        return 0.01 * max(self.before_ns, self.after_ns)

    @property
    def is_noise(self) -> bool:
        """Whether the difference may well be none."""
        return self.difference_ns == 0 or abs(self.difference_ns) <= self.margin_ns

    @property
    def presence(self) -> str:
        """Whether it is "new", "gone", or was there in "both"."""
        return "gone" if not self.after_ns else "both" if self.before_ns else "new"

    @property
    def remark(self) -> str:
        """A word about it: "noise", "new", "gone", or none."""
        return "noise" if self.is_noise else self.presence if self.presence != "both" else ""

    def row(self) -> Row:
        """Return the change as a row of a table, in µs."""
        known = not math.isnan(self.margin_ns)
        difference = self.difference_ns
        return {
            "name": self.name,
            "before(us)": self.before_ns / 1000,
            "after(us)": self.after_ns / 1000,
            "difference(us)": difference / 1000,
            "least(us)": (difference - self.margin_ns) / 1000 if known else None,
            "most(us)": (difference + self.margin_ns) / 1000 if known else None,
            "noise": self.is_noise if known else None,
            "presence": self.presence,
        }


@dataclass(frozen=True)
class RunDifference:
    """The difference of two runs."""

    before: StepTimes
    after: StepTimes
    by_step: bool
    """Whether steps were compared; else the whole recordings were, as one of the two has no steps."""
    step: TimeChange
    seen_ns: float
    """So large a difference of a step would have been seen four times in five; not a number with one step only."""
    tables: dict[str, list[TimeChange]]
    """What a step is made of, by the name of the table; what changed most comes first, and what is noise last."""


def compare(before: dict[Rank, Trace], after: dict[Rank, Trace]) -> RunDifference:
    """Return what changed from one run to another; each is the traces of all its ranks.

    Raises:
        TraceError: one of the two has no events.
    """
    for side in (before, after):
        if not any(len(trace.events) for trace in side.values()):
            raise TraceError(f"{next(iter(side.values())).path} has no events to compare")
    by_step = has_steps(before) and has_steps(after)
    one, other = step_times(before, by_step), step_times(after, by_step)
    [step] = _changes(["step"], [one.duration], [other.duration], one.ranks, other.ranks)
    found = noise.change(one.duration / one.ranks, other.duration / other.ranks)
    seen = float(found.margin(noise.ERROR_RATE) + found.margin(2 * 0.2))  # it is overlooked once in five times
    return RunDifference(one, other, by_step, step, seen, {table: _table(one, other, table) for table in TABLES})


def _table(before: StepTimes, after: StepTimes, table: str) -> list[TimeChange]:
    one, other = before.tables[table], after.tables[table]
    names = list(dict.fromkeys([*one, *other]))
    nothing, none = np.zeros_like(before.duration), np.zeros_like(after.duration)
    times = [one.get(name, nothing) for name in names], [other.get(name, none) for name in names]
    found = _changes(names, *times, before.ranks, after.ranks)
    # What is a smaller part of a step than this is listed among the noise.
    least = 0.001 * max(before.duration.mean() / before.ranks, after.duration.mean() / after.ranks)

    def rank(change: TimeChange) -> tuple[bool, float, str]:
        size = abs(change.difference_ns)
        return change.is_noise or size < least, -size, change.name

    return sorted(found, key=rank)


def _changes(
    names: Sequence[str], before: Sequence[Ints], after: Sequence[Ints], ranks_before: int, ranks_after: int
) -> list[TimeChange]:
    """Return the changes of some times in each step, with intervals that hold together."""
    if not names:
        return []
    one, other = np.stack(before) / ranks_before, np.stack(after) / ranks_after
    margin = noise.change(one, other).margin(noise.ERROR_RATE / len(names))
    columns = (names, one.mean(axis=1).tolist(), other.mean(axis=1).tolist(), margin.tolist())
    return [TimeChange(*row) for row in zip(*columns, strict=True)]
