"""Sets of time: unions, their lengths, what they share."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Spans(NamedTuple):
    """Stretches of time, in ns, in their order, none touching the next."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """All together."""
        return int((self.end - self.start).sum())


def union(start: Ints, end: Ints) -> Spans:
    """What is covered by at least one of some intervals."""
    if not len(start):
        return Spans(start, end)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    begins = np.flatnonzero(np.concatenate([[True], start[1:] > end[:-1]]))
    return Spans(start[begins], end[np.concatenate([begins[1:], [len(end)]]) - 1])


def overlap(one: Spans, other: Spans) -> Spans:
    """What is covered by both."""
    # A stretch of one meets those of the other that end after it starts and start before it ends.
    first = np.searchsorted(other.end, one.start, side="right")
    behind = np.searchsorted(other.start, one.end, side="left")
    count = np.maximum(behind - first, 0)
    mine = np.repeat(np.arange(len(one.start)), count)
    theirs = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return Spans(np.maximum(one.start[mine], other.start[theirs]), np.minimum(one.end[mine], other.end[theirs]))


def without(one: Spans, other: Spans) -> Spans:
    """What is covered by one and not by the other."""
    if not len(one.start) or not len(other.start):
        return one
    gaps = Spans(
        np.concatenate([[min(one.start[0], other.start[0])], other.end]),
        np.concatenate([other.start, [max(one.end[-1], other.end[-1])]]),
    )
    found = overlap(one, gaps)
    some = found.end > found.start
    return Spans(found.start[some], found.end[some])
