"""How often somebody may ask for something."""

import time
from collections.abc import Callable

MAX_KEYS = 10_000
"""The number of keys after which those that have their whole burst again are forgotten."""


class RateLimit:
    """A bucket of permits for each key, which fills again with time.

    Args:
        burst: how many permits a full bucket has.
        per_s: how many come back in a second.
        clock: the seconds.
    """

    def __init__(self, burst: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, key: str) -> bool:
        """Take a permit, and return whether there was one."""
        left = self._left(key)
        self._buckets[key] = (left - 1 if left >= 1 else left, self._clock())
        if len(self._buckets) > MAX_KEYS:
            self._buckets = {each: kept for each, kept in self._buckets.items() if self._left(each) < self._burst}
        return left >= 1

    def is_spent(self, key: str) -> bool:
        """Return whether there is no permit, and take none."""
        return self._left(key) < 1

    def _left(self, key: str) -> float:
        left, then = self._buckets.get(key, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - then) * self._per_s)
