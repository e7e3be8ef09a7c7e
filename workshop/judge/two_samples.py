"""Whether two samples may come from the same source: tests by permutation, of whatever distances can be taken of.

Items of one stratum, such as those of a class, are compared with each other only.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

PERMUTATIONS = 500
"""Times that items change places between the samples."""

NEIGHBOURS = 3
"""Nearest items of each that are looked at."""

NEAR_PAIRS = (2, 8, 32)
"""Items for each of the nearest pairs that are looked at: with 8, the 10 nearest pairs of 80 items. Each is tried."""

LEVELS = 64
"""Ranges, with about as many values in each, in which values are counted; pairs of neighbours, in as many squares."""

TOO_RARE = 1e-6
"""Chance, at least, of a difference between samples of one source: what is rarer shows that they are of two."""

RARE = 0.005
"""Chance, at least, of the difference between the original's own epochs; where it is rarer, nothing is asked for."""

MAX_BY_CHANCE = 0.05
"""Share, at most, of the steps or items that may differ by chance."""

MAX_DEVIATIONS = 5.0
"""Standard deviations, at most, by which a figure may be off by chance."""


@dataclass(frozen=True)
class Strata:
    """The items of two samples: the first ones, which are the original's, and the others."""

    first: int
    """The number of items of the first sample."""
    number: Array
    """The stratum of each item of both."""
    batches: Array
    """The number of the batch of each, a different one in each sample."""

    @classmethod
    def of_all(cls, first: int, batches: Array) -> "Strata":
        """Return two samples whose items are all compared with each other."""
        return cls(first, np.zeros(len(batches), np.int64), batches)

    @cached_property
    def same(self) -> Array:
        """Which pairs of different items are in one stratum."""
        same = self.number[:, None] == self.number
        np.fill_diagonal(same, False)
        return same

    @property
    def relabelled(self) -> Iterator[Array]:
        """Yield who is in the first sample: as it is in the first column, and by chance in all others.

        First, items change places with those of their stratum; then whole batches, whose items may have much in common.
        """
        yield self._items_exchanged
        yield self._batches_exchanged

    @cached_property
    def _mixed(self) -> Array:
        """An order of all items by chance, so that of equally near ones those of neither sample are taken first."""
        return np.random.default_rng(1).permutation(len(self.number))

    @cached_property
    def _items_exchanged(self) -> Array:
        return _permuted(np.arange(len(self.number)) < self.first, self.number)

    @cached_property
    def _batches_exchanged(self) -> Array:
        _, one_of_each, batch = np.unique(self.batches, return_index=True, return_inverse=True)
        return _permuted(one_of_each < self.first, np.zeros(len(one_of_each)))[batch]

    def chance_of_distances(self, distances: Array) -> float:
        """Return the chance that samples of one source are as far from each other, by their energy distance."""
        weighted = distances.astype(np.float32) * self.same
        of_stratum = (self.number[:, None] == np.unique(self.number)).astype(np.float32)

        def energy(first: Array) -> Array:
            pairs = of_stratum @ (of_stratum.T @ first) - first  # so many of those in the same stratum are in it
            second, sums = 1 - first, weighted @ first
            all_pairs = self.same.sum(1, dtype=np.float32)[:, None] - pairs
            all_sums = weighted.sum(1)[:, None] - sums

            def mean(of: Array, sums: Array, pairs: Array) -> Array:
                return (of * sums).sum(0) / np.maximum((of * pairs).sum(0), 1)

            between = mean(second, sums, pairs)
            return 2 * between - mean(first, sums, pairs) - mean(second, all_sums, all_pairs)

        return self._largest(energy)

    def chance_of_repetitions(self, distances: Array) -> float:
        """Return the chance that so many items of the second sample have their nearest neighbours in it, too."""
        nearest, are_compared = self._nearest(distances)

        def share(first: Array) -> Array:
            second = 1 - first
            near = sum(second[places] * row[:, None] for places, row in zip(nearest, are_compared, strict=True))
            return (second * near).sum(0) / np.maximum(second.sum(0), 1) ** 2

        return self._largest(share)

    def share_of_own(self, distances: Array) -> float:
        """Return the share of the nearest neighbours of the second sample's items that are in it, too."""
        nearest, are_compared = (each[:, self.first :] for each in self._nearest(distances))
        return float((are_compared & (nearest >= self.first)).sum() / max(are_compared.sum(), 1))

    def _nearest(self, distances: Array) -> tuple[Array, Array]:
        """Return the nearest neighbours of each item, and whether it is compared with them, in `NEIGHBOURS` rows.

        Of those that are as near, it is any, by chance.
        """
        far = np.where(self.same, distances, np.inf)
        nearest = self._mixed[np.argpartition(far[:, self._mixed], NEIGHBOURS, axis=1)[:, :NEIGHBOURS]]
        return nearest.T, np.take_along_axis(self.same, nearest, axis=1).T

    def chance_of_near_pairs(self, distances: Array) -> float:
        """Return the chance that so many of the nearest pairs of items are both of the second sample."""
        mixed = self._mixed
        same, apart = (each[mixed][:, mixed] for each in (self.same, distances))
        far = np.where(np.triu(same, k=1), apart, np.inf).ravel()
        counts = [len(distances) // each for each in NEAR_PAIRS]
        nearest = np.argpartition(far, counts[0])[: counts[0]]
        nearest = nearest[np.isfinite(far[nearest])]
        one, other = mixed[np.array(np.unravel_index(nearest[np.argsort(far[nearest])], distances.shape))]
        return min(self._chance_of_pairs(one[:count], other[:count]) for count in counts)

    def _chance_of_pairs(self, one: Array, other: Array) -> float:
        """Return the chance that so many of these pairs of items are both of the second sample."""
        return self._largest(lambda first: ((1 - first[one]) * (1 - first[other])).sum(axis=0))

    def chance_of_counts(self, counts: Array) -> float:
        """Return the chance that samples of one source differ so in what is counted of each item, a column for each.

        The statistic is Pearson's chi-square of the first sample's sums, where each stratum's are expected to be shared
        as its items are.
        """
        sums = counts.sum(axis=0)
        counts, sums = counts[:, sums > 0].astype(np.float32), sums[sums > 0]
        numbers, size = np.unique(self.number, return_inverse=True, return_counts=True)[1:]
        of_stratum = (numbers[:, None] == np.arange(len(size))).astype(np.float32)
        expected = of_stratum.T @ counts / size[:, None]
        return self._largest(
            lambda first: (((first.T @ counts - (first.T @ of_stratum) @ expected) ** 2) / sums).sum(axis=1)
        )

    def chance_of_figures(self, figures: Array) -> float:
        """Return the chance that samples of one source differ so in a figure of each item, by its rank."""
        ranks = _ranks(figures)
        return self.chance_of_distances(np.abs(ranks[:, None] - ranks))

    def _largest(self, statistic: Callable[[Array], Array]) -> float:
        """Return the larger one of the chances that exchanged items and batches give; one that is not rare will do."""
        chance = 0.0
        for first in self.relabelled:
            chance = max(chance, _tail(statistic(first)))
            if chance > RARE:
                break
        return chance


def _permuted(values: Array, strata: Array) -> Array:
    """Return values as they are in the first column, and exchanged by chance within each stratum in all others."""
    numbers = np.unique(strata, return_inverse=True)[1]
    order = _orders(numbers.astype(np.int64).tobytes())
    found = np.empty(order.shape, np.float32)
    by_stratum = values[np.argsort(numbers, kind="stable")].astype(np.float32)
    np.put_along_axis(found, order, np.broadcast_to(by_stratum, order.shape), axis=1)
    return np.concatenate([values[None].astype(np.float32), found]).T


@lru_cache(maxsize=4)
def _orders(numbers: bytes) -> Array:
    """Return the places of items, given the number of the stratum of each, in orders by chance: strata stay together.

    Several figures of the same items are looked at in turn.
    """
    strata, dice = np.frombuffer(numbers, np.int64), np.random.default_rng(0)
    return np.argsort(strata + dice.random((PERMUTATIONS, len(strata))), axis=1)


def _ranks(figures: Array) -> Array:
    """Return the rank of each figure, from 0 to 1; equal ones have the same rank."""
    _, number, count = np.unique(figures, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(count) - (count + 1) / 2)[number] / max(len(figures) - 1, 1)
    return ranks


def chance_of_batches(figures: Array, batches: Array, epochs: Array) -> float:
    """Return the chance that the items of a batch have such similar figures, if those of an epoch are mixed by chance.

    The statistic is the sum of squares of the batches' mean ranks.
    """
    ranks = _ranks(figures)
    for epoch in np.unique(epochs):
        ranks[epochs == epoch] -= ranks[epochs == epoch].mean()
    _, batch, count = np.unique(batches, return_inverse=True, return_counts=True)
    of_batch = (batch[:, None] == np.arange(len(count))) / np.sqrt(count)
    return _tail(((of_batch.T @ _permuted(ranks, epochs)) ** 2).sum(axis=0))


def chance_of_alike_batches(distances: Array, batches: Array, epochs: Array) -> float:
    """Return the chance that the items of a batch are so near to each other, if those of an epoch are mixed by chance.

    The statistic is the mean distance of two items of a batch. A part of an epoch may stand in place of one.
    """
    one, other = np.nonzero(np.triu(batches[:, None] == batches, k=1))
    if not len(one):
        return 1.0
    places = _permuted(np.arange(len(batches)), epochs).astype(np.int64)
    return _tail(-distances.astype(np.float32)[places[one], places[other]].mean(axis=0))


def counts_of(values: Array) -> tuple[Array, ...]:
    """Return what can be counted of each row, a column for each kind.

    These are values of some size, pairs of neighbours of some sizes, and whether the row has so many different values.
    """
    few = int(np.sqrt(LEVELS))
    fine, coarse = (_levels(values, levels) for levels in (LEVELS, few))
    some = values.shape[1] // 2 * 2
    neighbours = coarse[:, :some:2] * few + coarse[:, 1:some:2]
    different = 1 + (np.diff(np.sort(values, axis=1), axis=1) != 0).sum(axis=1, keepdims=True)
    return _counted(fine, LEVELS), _counted(neighbours, LEVELS), _counted(different, values.shape[1] + 1)


def _levels(values: Array, levels: int) -> Array:
    """Return the number of the range that each value is in."""
    found: Array = np.searchsorted(np.quantile(values, np.arange(1, levels) / levels), values, side="right")
    return found


def _counted(numbers: Array, kinds: int) -> Array:
    """Return how often each row has each number."""
    cells = numbers + np.arange(len(numbers))[:, None] * kinds
    return np.bincount(cells.ravel(), minlength=len(numbers) * kinds).reshape(-1, kinds)


def standardised(figures: Array, first: int) -> Array:
    """Scale each column by the values of the first rows."""
    middle = np.median(figures[:first], axis=0)
    spread = np.abs(figures[:first] - middle).mean(axis=0)
    scaled = (figures - middle) / np.where(spread > 0, spread, max(float(spread.max()), 1e-12))
    return np.clip(scaled, -6, 6).astype(np.float32)


def distances_between(one: Array, other: Array) -> Array:
    """Return the root mean square difference of each row of one array from each of another."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    distances: Array = np.sqrt(np.maximum(squares, 0) / one.shape[1])
    return distances


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
