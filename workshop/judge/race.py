"""Which of two scripts is faster, on a machine that is not idle: a sequential test on pairs of epochs.

Both train an epoch in turn, AB, BA, AB, ...; a pair's ratio is the original's time over the candidate's. After each
pair, from the third on, there is a new interval of the ratio. As soon as the target lies outside, and the interval is
narrow enough to say how fast the script is, the race is over, and this interval is the one that is shown: a verdict and
its interval cannot contradict each other. While the target lies inside, nothing is decided.

The intervals are Student's, of the mean of the ratios' logarithms. A race that may end after each pair has many
chances to end wrongly, so each interval is wider than one of 95 %: see `OUTSIDE`. These are repeated confidence
intervals (Jennison and Turnbull, Journal of the Royal Statistical Society B 51, 1989) with the same nominal level for
all (Pocock, Biometrika 64, 1977). However much the pairs scatter, and whenever and why ever the race ends, the last
interval holds the true ratio with 95 %, and a script exactly at the target gets each of the two verdicts with 2.5 %
at most. This takes pairs that are independent and whose logarithms are normal; `benchmarks/decision_rates.py`
simulates what happens if they are not.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from workshop.noise import student_t

MIN_PAIRS, MAX_PAIRS = 3, 30
"""Pairs, at least and at most, of a race."""

OUTSIDE = 0.0062
"""Chance, at most, that one interval misses the true ratio. That any one of a race does, after 3 to 30 pairs, has a
chance of 4.9 %, in four million simulated races."""

MAX_WIDTH = 2.0
"""Times, at most, that the ends of an interval differ at which a race is over, unless pairs or time run out."""

MIN_SURE = 1.5
"""Times the target, at least, that a speedup need not show again in `compare` after both scripts are restarted; in a
gate, times that a slowdown is beyond the limit."""


@dataclass(frozen=True)
class Pair:
    """The seconds for an epoch of each script."""

    before_s: float
    after_s: float

    @property
    def ratio(self) -> float:
        """The speedup of the second script."""
        return self.before_s / self.after_s


@dataclass(frozen=True)
class RaceResult:
    """A race that is over."""

    target: float
    pairs: tuple[Pair, ...]
    again: tuple[Pair, ...] = ()
    """The pairs after both scripts were restarted, if they were."""
    unsure: bool = False
    """Whether they should have been, and no time was left."""

    @property
    def faster(self) -> bool | None:
        """Whether the target is reached; None if that could not be decided: the target lies in the interval."""
        low, high = self.interval
        if low >= self.target:
            return True
        return False if high < self.target else None

    @property
    def is_over(self) -> bool:
        """Whether no other pair is needed."""
        low, high = self.interval
        return self.faster is not None and high <= MAX_WIDTH * low

    @property
    def out_of_time(self) -> bool:
        """Whether more time might have decided it."""
        return self.unsure or (self.faster is None and len(self.pairs) < MAX_PAIRS)

    def must_show_again(self, slowdown: bool) -> bool:
        """Return whether a small speedup has decided it, or a small `slowdown`, if that is what would be told.

        It may be due to how a process's memory happens to be laid out.
        """
        if slowdown:
            return self.faster is False and self.ratio * MIN_SURE > self.target
        return self.faster is True and self.ratio < MIN_SURE * self.target

    @property
    def ratio(self) -> float:
        """The geometric mean of the pairs' ratios."""
        return mean_ratio(self.pairs + self.again)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the ratio that holds it with 95 %, whenever the race ended.

        After a second race, it reaches over the intervals of both.
        """
        intervals = [_interval(pairs) for pairs in (self.pairs, self.again) if pairs]
        return min(low for low, _ in intervals), max(high for _, high in intervals)


def mean_ratio(pairs: Sequence[Pair]) -> float:
    """Return the geometric mean of the pairs' ratios."""
    return math.exp(fmean(math.log(pair.ratio) for pair in pairs))


def _interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    if len(pairs) < MIN_PAIRS:
        return 0.0, math.inf
    logs = [math.log(pair.ratio) for pair in pairs]
    half = student_t(len(logs) - 1, OUTSIDE) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


def race(
    before: Callable[[], float],
    after: Callable[[], float],
    target: Callable[[], float],
    budget_s: float = math.inf,
    on_pair: Callable[[RaceResult], None] = lambda result: None,
) -> RaceResult:
    """Run pairs until the target lies outside of the ratio's interval, and that is narrow, or pairs or time run out.

    `before` and `after` train an epoch of each script and return its seconds. After each pair, `target` is
    asked, which must not change from the third on, when there is an interval. After three pairs, none is begun that
    would take longer than `budget_s` if it were as long as the longest. `on_pair` is called with the race so far after
    each pair, and its time is not raced.
    """
    pairs: list[Pair] = []
    longest_s = 0.0
    begin = time.monotonic()
    while True:
        if len(pairs) % 2 == 0:
            before_s, after_s = before(), after()
        else:
            after_s, before_s = after(), before()
        pairs.append(Pair(before_s, after_s))
        longest_s = max(longest_s, before_s + after_s)
        result = RaceResult(target(), tuple(pairs))
        on_pair(result)
        elapsed_s, enough = time.monotonic() - begin, len(pairs) >= MIN_PAIRS
        if result.is_over or len(pairs) == MAX_PAIRS or (enough and elapsed_s + longest_s > budget_s):
            return result
