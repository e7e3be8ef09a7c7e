"""Whether two samples may come from the same source: tests by permutation, of whatever distances can be taken of.

Items of one stratum, such as those of a class, are compared with each other only, and change places only there.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PERMUTATIONS = 500
"""The number of times that items change places between the samples."""

NEIGHBOURS = 3
"""The number of nearest items that are looked at."""


@dataclass(frozen=True)
class Strata:
    """The items of two samples: the first ones, which are the original's, and the others."""

    first: int
    """The number of items of the first sample."""
    number: Array
    """The stratum of each item of both."""

    @property
    def same(self) -> Array:
        """Which pairs of different items are in one stratum."""
        same = self.number[:, None] == self.number
        np.fill_diagonal(same, False)
        return same

    def permuted(self) -> Array:
        """Return who is in the first sample: as it is in the first column, and at random in all others."""
        dice, count = np.random.default_rng(0), len(self.number)
        is_first = np.arange(count) < self.first
        by_stratum = is_first[np.argsort(self.number, kind="stable")]
        # The places in each row are grouped by stratum, those of a stratum in any order.
        order = np.argsort(np.unique(self.number, return_inverse=True)[1] + dice.random((PERMUTATIONS, count)), axis=1)
        found = np.empty((PERMUTATIONS, count), np.float32)
        np.put_along_axis(found, order, np.broadcast_to(by_stratum, order.shape).astype(np.float32), axis=1)
        return np.concatenate([is_first[None].astype(np.float32), found]).T


def chance_of_distances(distances: Array, strata: Strata) -> float:
    """Return the chance that samples of one source are as far from each other, by their energy distance."""
    same, first = strata.same.astype(np.float32), strata.permuted()
    second = 1 - first
    weighted = distances.astype(np.float32) * same

    def means(one: Array, other: Array) -> Array:
        pairs = (one * (same @ other)).sum(0)
        return (one * (weighted @ other)).sum(0) / np.maximum(pairs, 1)

    return _tail(2 * means(first, second) - means(first, first) - means(second, second))


def chance_of_repetitions(distances: Array, strata: Strata) -> float:
    """Return the chance that so many items of the second sample have their nearest neighbours in it, too."""
    far = np.where(strata.same, distances, np.inf)
    nearest = np.argpartition(far, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    is_near = np.zeros(far.shape, np.float32)
    np.put_along_axis(is_near, nearest, 1, axis=1)
    is_near[~strata.same] = 0
    second = 1 - strata.permuted()
    return _tail((second * (is_near @ second)).sum(0))


def chance_of_figures(figures: Array, strata: Strata) -> float:
    """Return the chance that samples of one source differ so in a figure of each item, by its rank."""
    ranks = np.unique(figures, return_inverse=True, return_counts=True)
    places = (np.cumsum(ranks[2]) - (ranks[2] + 1) / 2)[ranks[1]] / max(len(figures) - 1, 1)
    return chance_of_distances(np.abs(places[:, None] - places), strata)


def _tail(statistics: Array) -> float:
    """Return the chance of the first value or a larger one, given what permutations make of it: a gamma's tail."""
    found, others = float(statistics[0]), statistics[1:].astype(np.float64)
    spread = others.std()
    if spread < 1e-12 * max(1.0, abs(float(others.mean()))):
        return 1.0
    z, skewness = (found - others.mean()) / spread, float((((others - others.mean()) / spread) ** 3).mean())
    if skewness > 0.01:  # a gamma of that skewness, by the cube root of Wilson and Hilferty
        shape = 4 / skewness**2
        root = max(0.0, 1 + z / math.sqrt(shape)) ** (1 / 3)
        z = (root - (1 - 1 / (9 * shape))) * math.sqrt(9 * shape)
    return max(0.5 * math.erfc(z / math.sqrt(2)), 1e-300)
