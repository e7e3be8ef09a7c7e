"""Whether what enters the model is what enters the original's: rows of a table, text, noise, any kind of data.

If the original's items are always the same, each input must be one of them, with its target. If they are drawn anew,
the inputs must look like draws of the same kind: of the same item, where its target names it, of the same class, or
altogether. What the original's own epochs do not have in common is not asked of the candidate.
"""

from collections.abc import Iterator

import numpy as np

from workshop.judge.inputs import MAX_CLASSES, SAME_INPUT, Items, drawn_items, figures_of, items_of, other_items_of
from workshop.judge.ledger import Ledger, epochs
from workshop.judge.sample_proof import MIN_EPOCHS, MIN_ITEMS, check_samples
from workshop.judge.two_samples import (
    RARE,
    TOO_RARE,
    Array,
    chance_of_alike_batches,
    chance_of_batches,
    counts_of,
    distances_between,
    standardised,
)
from workshop.judge.verdict import UnseenWork

MAX_STEPS = 50
"""What has no such epochs of its own is cut into pieces of this many steps, or fewer."""

SAME_VALUE = 0.05
"""A value may be off by this part of the usual deviation of such values."""

MOSTLY = 0.98
"""If this share of the original's items comes again in each epoch, its items are always the same."""

FEW = 0.02
"""The share of inputs that may differ by chance."""

FEWER = 0.8
"""An epoch must show this share of the different inputs that the original's shows."""

DEVIATIONS = 5
"""Where some inputs come again by chance, their number may be off by this many times its own deviation."""

MAX_COMPARED = 400
"""The number of items of each script whose values are compared with each other."""

MAX_MIXED = 2000
"""The number of items of each script that are looked at for what those of a batch have in common."""


def check_inputs(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that what enters the model is what enters the original's."""
    if original.transforms and any(each.way for each in original.pictures):
        return  # how these pictures are made is seen transform by transform
    steps = _steps(original, candidate)
    ours, theirs = (items_of(ledger, steps) for ledger in (original, candidate))
    for place in sorted(ours.keys() & theirs.keys()):
        drawn = drawn_items(original) if place == 0 else None
        known = known_items(original, ours[place])
        if found := _first_difference(ours[place], theirs[place], drawn and drawn[0], known):
            yield found
            return
    yield from _check_other_inputs(original, *(other_items_of(ledger, steps) for ledger in (original, candidate)))


def _check_other_inputs(original: Ledger, ours: dict[int, Items], theirs: dict[int, Items]) -> Iterator[str]:
    """Check the inputs beside the model's first that come to the original as they were loaded, or are whole numbers."""
    passes = zip(*(step.other_inputs for step in original.steps), strict=False)
    looked_at = [
        place
        for place, found in enumerate(passes)
        if all(each.inputs and (each.is_loaded or each.dtype.startswith(("int", "uint"))) for each in found)
    ]
    for place in (place for place in looked_at if place in ours):
        if len(theirs) != len(ours) or theirs[place].largest_batch != ours[place].largest_batch:
            yield UnseenWork("what enters its models is not divided among calls and arguments as in the original")
            return
        if found := _first_difference(ours[place], theirs[place]):
            yield f"in an input beside the model's first, {found}"
            return


def _first_difference(usual: Items, now: Items, drawn: Items | None = None, known: Items | None = None) -> str | None:
    """Return what is wrong with some inputs, given what was drawn from the original's dataset, and its fixed items."""
    if len(usual) < MIN_ITEMS or len(now) < MIN_ITEMS or usual.have_targets != now.have_targets:
        return None
    if known is None and is_fixed(usual):
        known = usual.distinct
    found = [*_check_variety(usual, now)] if known is None else [*_check_known(known, usual, now)]
    if known is None and not found:
        found = [*check_samples(usual, now, drawn)]
    found = found or [*_check_mixture(usual, now)]
    return found[0] if found else None


def _steps(original: Ledger, candidate: Ledger) -> int:
    """Return the number of steps of an epoch; where there are too few of them, of a piece of the training."""
    steps, seen, wanted = len(epochs(original)[0]), len(original.steps), len(candidate.steps)
    is_enough = len(original.loader_starts) > 1 and seen >= MIN_EPOCHS * steps and wanted >= 2 * steps
    return steps if is_enough else max(1, min(MAX_STEPS, seen // MIN_EPOCHS, wanted // 2))


# Items that are always the same


def known_items(original: Ledger, usual: Items) -> Items | None:
    """Return all items of the original's dataset, if they were drawn, always the same ones, and enter its model."""
    if (drawn := drawn_items(original)) is None:
        return None
    items, numbers = drawn
    first = items.epochs == 0
    if first.sum() < original.drawn[0].of or first.all():
        return None
    known = items[first]
    place = {int(number): n for n, number in enumerate(numbers[first])}
    again = items[~first]
    before = known[[place[int(number)] for number in numbers[~first]]]
    off = np.sqrt(((again.sketches.astype(np.float64) - before.sketches) ** 2).sum(1))
    is_same = float(np.mean(off <= SAME_INPUT * known.usual_distance)) >= MOSTLY
    return known if is_same and _share_known(known, usual.some(1000)) >= MOSTLY else None


def is_fixed(items: Items) -> bool:
    """Return whether each epoch has the same items, with the same targets."""
    numbers = np.unique(items.epochs)
    if len(numbers) < 2:
        return False
    one, other = (items[items.epochs == number] for number in numbers[:2])
    return _share_known(one, other.some(1000)) >= MOSTLY and _share_known(other, one.some(1000)) >= MOSTLY


def _share_known(known: Items, items: Items) -> float:
    """Return the share of the items that are among the known ones, with the same target."""
    found = zip(_places(known, items), items.targets, strict=True)
    return float(np.mean([place is not None and known.targets[place] == target for place, target in found]))


def _places(known: Items, items: Items) -> list[int | None]:
    """Return which of the known items each of these is, by its sketch; of several, one with the same target."""
    typical = known.usual_distance
    by_target: dict[object, list[int]] = {}
    for index, target in enumerate(known.targets):
        by_target.setdefault(target, []).append(index)
    sketches = known.sketches.astype(np.float64)
    squares, found = (sketches**2).sum(1), []
    for sketch, target in zip(items.sketches.astype(np.float64), items.targets, strict=True):
        distances = np.maximum(squares - 2 * sketches @ sketch + sketch @ sketch, 0)
        nearest = [int(np.argmin(distances))]
        if own := by_target.get(target):
            nearest.insert(0, own[int(np.argmin(distances[own]))])
        close = [n for n in nearest if np.sqrt(((sketches[n] - sketch) ** 2).sum()) <= SAME_INPUT * typical]
        found.append(close[0] if close else None)
    return found


def _check_known(known: Items, usual: Items, now: Items) -> Iterator[str]:
    """Check that each input is one that the original makes of an item, with the item's target."""
    some = now.some(2000)
    places = _places(known, some)
    wrong = sum(place is None for place in places) + _count_moved(known, some, places)
    exchanged = sum(
        place is not None and known.targets[place] != target for place, target in zip(places, some.targets, strict=True)
    )
    if wrong > FEW * len(some):
        yield f"{wrong} of {len(some)} inputs are not what the original makes of any item"
    elif exchanged > FEW * len(some):
        yield f"{exchanged} of {len(some)} inputs come with the target of another item"
    else:
        yield from _check_variety(usual, now)


def _count_moved(known: Items, some: Items, places: list[int | None]) -> int:
    """Count the items that have another value somewhere, where it is too small to show in the sketch."""
    if known.features.shape[1] != some.features.shape[1] or not len(known.noted):
        return 0
    found = [(number, place) for number, place in enumerate(places) if place is not None]
    numbers, of_known = np.array(found, int).reshape(-1, 2).T
    middle = np.median(known.noted.features, axis=0)
    spread = np.abs(known.noted.features - middle).mean(axis=0)
    off = np.abs(some.features[numbers] - known.features[of_known])  # NaN for what was not noted
    return int((off > SAME_VALUE * spread + 1e-6 * np.abs(middle)).any(axis=1).sum())


# Items that come again


def _check_variety(usual: Items, now: Items) -> Iterator[str]:
    """Check that an epoch, and several of them, show as many different inputs as those of the original."""
    typical = usual.usual_distance
    shared = min(len(np.unique(each.epochs)) for each in (usual, now))
    for count, what in (1, "an epoch"), (shared, f"{shared} epochs"):
        ours, theirs = (_different(items, count, typical) for items in (usual, now))
        expected = ours[0] * min(1.0, theirs[1] / ours[1])
        if theirs[0] < FEWER * expected - DEVIATIONS * np.sqrt(ours[0] * (ours[0] < ours[1])):
            yield (
                f"of {theirs[1]} inputs in {what}, {theirs[0]} are different ones, in the original {ours[0]} of "
                f"{ours[1]}: the same ones come again"
            )
            return


def _different(items: Items, count: int, typical: float) -> tuple[int, int]:
    """Return how many different inputs some epochs have, and how many in all: the last ones of a script."""
    some = items[np.isin(items.epochs, np.unique(items.epochs)[-count:])]
    return len(np.unique(some.rounded(typical), axis=0)), len(some)


# Items that share a batch


def _check_mixture(usual: Items, now: Items) -> Iterator[str]:
    """Check that the items of a batch are no more alike in size or target than any others, if so in the original."""
    for what, figures in {"size": _sizes, "target": _target_figures}.items():
        some = (items[:MAX_MIXED] for items in (usual, now))
        own, chance = (chance_of_batches(figures(items), items.batches, items.epochs) for items in some)
        if chance < TOO_RARE and own > RARE:
            yield f"the items of a batch are alike in {what}, and the original mixes them: shuffle all of them"
            return
    for chance_of in (_chance_of_values, _chance_of_counts):
        ours, theirs = (each.noted[each.noted.spread_over_batches(MAX_COMPARED)] for each in (usual, now))
        if min(len(ours), len(theirs)) >= MIN_ITEMS and chance_of(theirs) < TOO_RARE and chance_of(ours) > RARE:
            yield (
                "the values of the items of a batch are alike, and the original mixes them: shuffle all of them, and "
                "draw for each item what is drawn for it in the original"
            )
            return


def _chance_of_values(items: Items) -> float:
    """Return the chance that the items of a batch have such similar values."""
    values = standardised(items.features, len(items))
    return chance_of_alike_batches(distances_between(values, values), items.batches, items.epochs)


def _chance_of_counts(items: Items) -> float:
    """Return the chance that those of a batch, of one class if there are classes, are made of values so much alike."""
    if not items.values.size:
        return 1.0
    made = np.sqrt(np.concatenate(counts_of(items.values), axis=1, dtype=np.float32))
    known = {target: number for number, target in enumerate(dict.fromkeys(items.targets))}
    kinds = np.array([known[target] if len(known) <= MAX_CLASSES else 0 for target in items.targets])
    apart = np.where(kinds[:, None] == kinds, distances_between(made, made), 0)
    return chance_of_alike_batches(apart, items.batches, items.epochs * (MAX_CLASSES + 1) + kinds)


def _sizes(items: Items) -> Array:
    """Return how far each item is from nothing: of words, how many there are."""
    return np.sqrt((items.sketches.astype(np.float64) ** 2).sum(axis=1))


def _target_figures(items: Items) -> Array:
    return (figures_of(items) or [np.zeros(len(items))])[0]
