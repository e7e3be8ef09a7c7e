"""Columns of numbers; unions, intersections and differences of time intervals; and sums and values by group."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """Columns of equal length: the fields of a subclass."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __getitem__(self, rows: Any) -> Self:
        return type(self)(*(column[rows] for column in vars(self).values()))


class Spans(NamedTuple):
    """Disjoint time intervals in ascending order, in ns."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """The sum of the lengths in ns."""
        return int((self.end - self.start).sum())


def union(start: Ints, end: Ints) -> Spans:
    """Return the time that at least one of some intervals covers."""
    if not len(start):
        return Spans(start, end)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.concatenate([[True], start[1:] > end[:-1]]))
    return Spans(start[begins], end[np.concatenate([begins[1:], [len(end)]]) - 1])


def pairs(first: Ints, behind: Ints) -> tuple[Ints, Ints]:
    """Return each row with each of the rows from its first on, up to the one behind: two columns of equal length."""
    count = np.maximum(behind - first, 0)
    of_one = np.repeat(np.arange(len(first)), count)
    return of_one, np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - first, count)


class Meetings(NamedTuple):
    """Pairs of an interval of one and an interval of another kind that share time: columns of equal length."""

    one: Ints
    """The row of the first one's interval."""
    other: Ints
    """The row of the other's interval."""
    start: Ints
    end: Ints


def meetings(one: Spans, other: Spans) -> Meetings:
    """Return which intervals share time; those of the first one may overlap each other, in any order."""
    # An interval of one meets those of the other that end after it starts and start before it ends.
    first = np.searchsorted(other.end, one.start, side="right")
    behind = np.searchsorted(other.start, one.end, side="left")
    of_one, of_other = pairs(first, behind)
    start, end = np.maximum(one.start[of_one], other.start[of_other]), np.minimum(one.end[of_one], other.end[of_other])
    return Meetings(of_one, of_other, start, end)


def overlap(one: Spans, other: Spans) -> Spans:
    """Return the time that both cover."""
    found = meetings(one, other)
    return Spans(found.start, found.end)


def shared(spans: Spans, windows: Spans) -> Ints:
    """Return how much of some time is in each window, in ns; windows end in the order in which they start."""
    found = meetings(spans, windows)
    return sums(found.other, found.end - found.start, len(windows.start))


def sums(group: Ints, values: Ints, groups: int) -> Ints:
    """Return the sum of the values of each group, which is a number from 0."""
    found = np.zeros(groups, np.int64)
    np.add.at(found, group, values)
    return found


def groups(*keys: NDArray[Any]) -> list[tuple[Any, ...]]:
    """Return each combination of keys that some rows have, and behind it these rows; all in ascending order."""
    order = np.lexsort(keys[::-1])
    columns = [key[order] for key in keys]
    borders = np.flatnonzero(np.any([column[1:] != column[:-1] for column in columns], axis=0)) + 1
    parts = np.split(order, borders) if len(order) else []
    return [(*(key[rows[0]].item() for key in keys), rows) for rows in parts]


def without(one: Spans, other: Spans) -> Spans:
    """Return the time that one covers and the other does not."""
    if not len(one.start) or not len(other.start):
        return one
    gaps = Spans(
        np.concatenate([[min(one.start[0], other.start[0])], other.end]),
        np.concatenate([other.start, [max(one.end[-1], other.end[-1])]]),
    )
    found = overlap(one, gaps)
    positive = found.end > found.start
    return Spans(found.start[positive], found.end[positive])
