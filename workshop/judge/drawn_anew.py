"""What is drawn anew for an item each time, such as noise: is it drawn as in the original, and for each item by itself?

It is an item's difference from the mean of the reference's draws of the same item.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workshop.judge.inputs import MAX_ITEMS, Items, batches_of
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.two_samples import Array, Strata, chance_of_alike_batches, distances_between

MIN_ITEMS = 24
"""Items of a sample, at least: of fewer, nothing is compared."""

Difference = tuple[float, Reason | None]
"""The chance that two samples are of one source, and what is to be said if it is too small."""


class NoiseReason(ReasonKind):
    """What is said of noise and whatever else is drawn anew for an item."""

    DRAWN_OTHERWISE = (
        "what is drawn anew for each item is not drawn as in the original: it is distributed otherwise, or the same "
        "comes again for other items"
    )
    DRAWN_FOR_BATCH = (
        "the items of a batch get the same random draws, or similar ones: the original draws for each item"
    )


@dataclass(frozen=True)
class _Draws:
    items: Items
    values: Array
    """In units of what the original usually draws."""
    independent: Array
    """In directions which the original draws independently: a scale of all values does not hide the noise of each."""

    def __getitem__(self, which: Array) -> "_Draws":
        return _Draws(self.items[which], self.values[which], self.independent[which])


def check_noise(reference: Items, rest: Items, theirs: Items) -> Difference:
    """Compare what two samples draw.

    Compared are the size of the peaks, whether the same comes again, and which values go together. Draws that are in
    the reference, as those of a script with the same seed, are left out: they are part of its mean, and nearer to it.
    """
    rest, theirs = (items.without(reference) for items in (rest, theirs))
    found = [each[_by_chance(each.items)] for each in _draws(reference, rest, theirs)]
    if min((len(each.items) for each in found), default=0) < MIN_ITEMS:
        return 1.0, None
    strata = Strata.of_all(len(found[0].items), batches_of(*(each.items for each in found)))
    values, independent = (np.concatenate([getattr(of, name) for of in found]) for name in ("values", "independent"))
    apart = distances_between(independent, independent)
    chances = (
        strata.chance_of_figures(_peaks(values)),
        strata.chance_of_figures(_peaks(independent)),
        strata.chance_of_repetitions(apart),
        strata.chance_of_near_pairs(apart),
        strata.chance_of_distances(_angles(independent)),
    )
    return min(chances), NoiseReason.DRAWN_OTHERWISE()


def check_noise_of_batches(reference: Items, rest: Items, theirs: Items) -> Difference:
    """Compare what is drawn for the items of one batch."""
    found = _draws(reference, rest, theirs)
    if not found or len(found[1].items) < MIN_ITEMS:
        return 1.0, None
    some = found[1][found[1].items.spread_over_batches(2 * MAX_ITEMS)]
    chance = chance_of_alike_batches(_angles(some.independent), some.items.batches, some.items.epochs)
    return chance, NoiseReason.DRAWN_FOR_BATCH()


def _draws(reference: Items, rest: Items, theirs: Items) -> Sequence[_Draws]:
    """Return what the original and the other script have drawn for the items that the reference knows."""
    noted = [each.noted for each in (reference, rest, theirs)]
    if len({each.features.shape[1] for each in noted}) > 1:
        return ()
    drawn: dict[object, list[Array]] = {}
    for target, features in zip(noted[0].targets, noted[0].features, strict=True):
        drawn.setdefault(target, []).append(features)
    middle = {target: np.mean(each, axis=0) for target, each in drawn.items() if len(each) > 1}
    known = [each[np.array([target in middle for target in each.targets], bool)] for each in noted]
    if not all(map(len, known)):
        return ()
    values = [each.features - np.array([middle[target] for target in each.targets]) for each in known]
    sizes = values[0].std(axis=0)
    again, *others = (each[:, sizes > 0] / sizes[sizes > 0] for each in values)
    directions = _independent(again)
    return [_Draws(of, each, each @ directions) for of, each in zip(known[1:], others, strict=True)]


def _independent(again: Array) -> Array:
    """Return the matrix that turns draws of size 1 into values that do not go together."""
    together = again.T @ again / len(again)
    by_chance = min(1.0, 2 * len(together) / len(again))  # the share of the correlations that is not believed
    strengths, ways = np.linalg.eigh((1 - by_chance) * together + by_chance * np.eye(len(together)))
    matrix: Array = ((ways / np.sqrt(strengths)) @ ways.T).astype(np.float32)
    return matrix


def _peaks(values: Array) -> Array:
    """Return how far the largest value of each row stands out."""
    size = np.abs(values)
    peaks: Array = size.max(axis=1, initial=0) / np.maximum(size.mean(axis=1), 1e-12)
    return peaks


def _by_chance(items: Items) -> Array:
    dice = np.random.default_rng(len(items))
    return np.sort(dice.permutation(len(items))[: 2 * MAX_ITEMS])


def _angles(values: Array) -> Array:
    """Return how far each is from going the way of each other, or the opposite way: 0 to 1."""
    ways = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    angles: Array = 1 - (ways @ ways.T) ** 2
    return angles
