"""Which of two scripts is faster, on a machine that is not idle: a sequential test on pairs of epochs.

Both train an epoch in turn, AB, BA, AB, ...; a pair is a win if the original's time over the candidate's reaches the
target. Three more wins than losses: faster. Three more losses than wins: not. This is Wald's sequential probability
ratio test of p = 0.9 against p = 0.1 for the chance of a win, with an error of 1 % on either side: a lead of k decides
where (0.9 / 0.1)^k >= 0.99 / 0.01, and 9^3 is the first power of 9 above 99. So the 1 %
holds for a script whose pairs come out the same nine times in ten; the closer it is to the target, the more is chance.
Three wins whose ratios differ widely decide nothing: see `SPREAD`. Nor do wins where epochs vary by themselves, as
rollouts do: the 95 % interval must rule out that there is no gain.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

from workshop.noise import student_t

LEAD = 3
MAX_PAIRS = 15

SPREAD = 10.0
"""While the upper end of the 95 % interval is more than this times its lower end, nothing is decided."""


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
    other_ratio: float | None = None
    """The ratio after both scripts were restarted, if they did not reach the target again."""

    @property
    def lead(self) -> int:
        """The number of wins less the number of losses."""
        return sum(1 if pair.ratio >= self.target else -1 for pair in self.pairs)

    @property
    def faster(self) -> bool | None:
        """Whether the target is reached; None if that could not be decided."""
        if abs(self.lead) < LEAD:
            return None
        low, high = self.interval
        if high > SPREAD * low or (self.lead > 0 and self.may_be_no_gain):
            return None
        return self.lead > 0

    @property
    def may_be_no_gain(self) -> bool:
        """Whether the pairs differ so much that the second script may be no faster at all."""
        return self.interval[0] <= min(1.0, self.target)

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return median(pair.ratio for pair in self.pairs)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the geometric mean of the ratios, by Student's t; needs at least two pairs."""
        logs = [math.log(pair.ratio) for pair in self.pairs]
        half = student_t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
        return math.exp(mean(logs) - half), math.exp(mean(logs) + half)


def race(
    before: Callable[[], float],
    after: Callable[[], float],
    target: float,
    budget_s: float = math.inf,
    on_pair: Callable[[Sequence[Pair]], None] = lambda pairs: None,
) -> RaceResult:
    """Run pairs until one side leads by three, or pairs or time run out.

    `before` and `after` train an epoch of each script and return its seconds. After three pairs, none is begun that
    would take longer than `budget_s` if it were as long as the longest. `on_pair` is called with all pairs so far after
    each one, and its time is not raced.
    """
    pairs: list[Pair] = []
    longest_s = 0.0
    begin = time.monotonic()
    while True:
        if len(pairs) % 2 == 0:
            before_s = before()
            after_s = after()
        else:
            after_s = after()
            before_s = before()
        pairs.append(Pair(before_s, after_s))
        longest_s = max(longest_s, before_s + after_s)
        on_pair(pairs)
        result = RaceResult(target, tuple(pairs))
        elapsed_s, enough = time.monotonic() - begin, len(pairs) >= LEAD
        if result.faster is not None or len(pairs) == MAX_PAIRS or (enough and elapsed_s + longest_s > budget_s):
            return result
