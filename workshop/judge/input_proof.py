"""Whether what enters the model is what enters the original's: rows of a table, text, noise, any kind of data.

If the original's items are always the same, each input must be one of them, with its target. If they are drawn anew,
the inputs must look like draws of the same kind: of the same item, where its target names it, of the same class, or
altogether. What the original's own epochs do not have in common is not asked of the candidate.
"""

from collections.abc import Iterator

import numpy as np

from workshop.judge.drawn_anew import MIN_ITEMS
from workshop.judge.inputs import (
    MAX_CLASSES,
    MAX_ITEMS,
    SAME_INPUT,
    Items,
    drawn_items,
    figures_of,
    items_of,
    other_items_of,
)
from workshop.judge.ledger import Ledger, epochs
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.sample_proof import MIN_EPOCHS, check_samples
from workshop.judge.two_samples import (
    MAX_DEVIATIONS,
    RARE,
    TOO_RARE,
    Array,
    chance_of_alike_batches,
    chance_of_batches,
    counts_of,
    distances_between,
    standardised,
)
from workshop.probe.settings import MAX_EPOCH_STEPS

SAME_VALUE = 0.05
"""Share, at most, of the mean deviation of such values by which a value may be off."""

MAX_BY_CHANCE = 0.02
"""Share, at most, of the inputs that may differ by chance, as between two epochs of items that are always the same."""

MIN_VARIETY = 0.8
"""Share, at least, of the different inputs of an epoch of the original that an epoch must show."""


class InputReason(ReasonKind):
    """What is said of the items that enter a model, whatever they are."""

    DIVIDED_OTHERWISE = "what enters its models is not divided among calls and arguments as in the original", UNSEEN
    BESIDE_THE_FIRST = "in an input beside the model's first, {0}"
    OF_NO_ITEM = "{wrong} of {inputs} inputs are not what the original makes of any item"
    OF_ANOTHER_ITEM = "{exchanged} of {inputs} inputs come with the target of another item"
    AGAIN_IN_EPOCH = (
        "of {candidate[1]} inputs in an epoch, {candidate[0]} are different ones, in the original {original[0]} of "
        "{original[1]}: the same ones come again"
    )
    AGAIN_IN_EPOCHS = (
        "of {candidate[1]} inputs in {epochs} epochs, {candidate[0]} are different ones, in the original {original[0]} "
        "of {original[1]}: the same ones come again; keep what is deterministic, and draw anew what is random"
    )
    BATCH_ALIKE_IN_SIZE = "the items of a batch are alike in size, and the original mixes them: shuffle all of them"
    BATCH_ALIKE_IN_TARGET = "the items of a batch are alike in target, and the original mixes them: shuffle all of them"
    BATCH_ALIKE_IN_VALUES = (
        "the values of the items of a batch are alike, and the original mixes them: shuffle all of them, and draw for "
        "each item what is drawn for it in the original"
    )


def check_inputs(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that what enters the model is what enters the original's."""
    steps = _steps(original, candidate)
    ours, theirs = (items_of(ledger, steps) for ledger in (original, candidate))
    for place in sorted(ours.keys() & theirs.keys()):
        drawn = drawn_items(original) if place == 0 else None
        known = known_items(original, ours[place])
        if found := _first_difference(ours[place], theirs[place], drawn and drawn[0], known):
            yield found
            return
    yield from _check_other_inputs(original, *(other_items_of(ledger, steps) for ledger in (original, candidate)))


def _check_other_inputs(original: Ledger, ours: dict[int, Items], theirs: dict[int, Items]) -> Iterator[Reason]:
    """Check the inputs beside the model's first that come to the original as they were loaded, or are whole numbers."""
    passes = zip(*(step.other_inputs for step in original.steps), strict=False)
    looked_at = [
        place
        for place, found in enumerate(passes)
        if all(each.inputs and (each.is_loaded or each.dtype.startswith(("int", "uint"))) for each in found)
    ]
    for place in (place for place in looked_at if place in ours):
        if len(theirs) != len(ours) or theirs[place].largest_batch != ours[place].largest_batch:
            yield InputReason.DIVIDED_OTHERWISE()
            return
        if found := _first_difference(ours[place], theirs[place]):
            yield InputReason.BESIDE_THE_FIRST(found)
            return


def _first_difference(
    ours: Items, theirs: Items, drawn: Items | None = None, known: Items | None = None
) -> Reason | None:
    """Return what is wrong with some inputs, given what was drawn from the original's dataset, and its fixed items."""
    if len(ours) < MIN_ITEMS or len(theirs) < MIN_ITEMS or ours.have_targets != theirs.have_targets:
        return None
    if known is None and is_fixed(ours):
        known = ours.distinct
    found = [*_check_variety(ours, theirs)] if known is None else [*_check_known(known, ours, theirs)]
    if known is None and not found:
        found = [*check_samples(ours, theirs, drawn)]
    found = found or [*_check_mixture(ours, theirs)]
    return found[0] if found else None


def _steps(original: Ledger, candidate: Ledger) -> int:
    """Return the number of steps of an epoch; where there are too few of them, of a piece of the training."""
    steps, seen, wanted = len(epochs(original)[0]), len(original.steps), len(candidate.steps)
    is_enough = len(original.loader_starts) > 1 and seen >= MIN_EPOCHS * steps and wanted >= 2 * steps
    return steps if is_enough else max(1, min(MAX_EPOCH_STEPS, seen // MIN_EPOCHS, wanted // 2))


# Items that are always the same


def known_items(original: Ledger, ours: Items) -> Items | None:
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
    is_same = float(np.mean(off <= SAME_INPUT * known.median_distance)) >= 1 - MAX_BY_CHANCE
    return known if is_same and _share_known(known, ours.some(1000)) >= 1 - MAX_BY_CHANCE else None


def is_fixed(items: Items) -> bool:
    """Return whether each epoch has the same items, with the same targets."""
    numbers = np.unique(items.epochs)
    if len(numbers) < 2:
        return False
    one, other = (items[items.epochs == number] for number in numbers[:2])
    return (
        _share_known(one, other.some(1000)) >= 1 - MAX_BY_CHANCE
        and _share_known(other, one.some(1000)) >= 1 - MAX_BY_CHANCE
    )


def _share_known(known: Items, items: Items) -> float:
    """Return the share of the items that are among the known ones, with the same target."""
    found = zip(_places(known, items), items.targets, strict=True)
    return float(np.mean([place is not None and known.targets[place] == target for place, target in found]))


def _places(known: Items, items: Items) -> list[int | None]:
    """Return which of the known items each of these is, by its sketch; of several, one with the same target."""
    typical = known.median_distance
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


def _check_known(known: Items, ours: Items, theirs: Items) -> Iterator[Reason]:
    """Check that each input is one that the original makes of an item, with the item's target."""
    some = theirs.some(5 * MAX_ITEMS)
    places = _places(known, some)
    wrong = sum(place is None for place in places) + _count_moved(known, some, places)
    exchanged = sum(
        place is not None and known.targets[place] != target for place, target in zip(places, some.targets, strict=True)
    )
    if wrong > MAX_BY_CHANCE * len(some):
        yield InputReason.OF_NO_ITEM(wrong=wrong, inputs=len(some))
    elif exchanged > MAX_BY_CHANCE * len(some):
        yield InputReason.OF_ANOTHER_ITEM(exchanged=exchanged, inputs=len(some))
    else:
        yield from _check_variety(ours, theirs)


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


def _check_variety(ours: Items, theirs: Items) -> Iterator[Reason]:
    """Check that an epoch, and several of them, show as many different inputs as those of the original."""
    typical = ours.median_distance
    shared = min(len(each.longest_run) for each in (ours, theirs))
    for count, kind in (1, InputReason.AGAIN_IN_EPOCH), (shared, InputReason.AGAIN_IN_EPOCHS):
        original, candidate = (_different(items, count, typical) for items in (ours, theirs))
        expected = original[0] * min(1.0, candidate[1] / original[1])
        by_chance = MAX_DEVIATIONS * np.sqrt(original[0] * (original[0] < original[1]))
        if candidate[0] < MIN_VARIETY * expected - by_chance:
            yield kind(epochs=count, candidate=candidate, original=original)
            return


def _different(items: Items, count: int, typical: float) -> tuple[int, int]:
    """Return how many different inputs some epochs have, and how many in all: the last ones of a run."""
    some = items[np.isin(items.epochs, items.longest_run[-count:])]
    return len(np.unique(some.rounded(typical), axis=0)), len(some)


# Items that share a batch


def _check_mixture(ours: Items, theirs: Items) -> Iterator[Reason]:
    """Check that the items of a batch are no more alike in size or target than any others, if so in the original."""
    looks = {InputReason.BATCH_ALIKE_IN_SIZE: _sizes, InputReason.BATCH_ALIKE_IN_TARGET: _target_figures}
    for kind, figures in looks.items():
        some = (items[: 5 * MAX_ITEMS] for items in (ours, theirs))
        own, chance = (chance_of_batches(figures(items), items.batches, items.epochs) for items in some)
        if chance < TOO_RARE and own > RARE:
            yield kind()
            return
    for chance_of in (_chance_of_values, _chance_of_counts):
        one, other = (each.noted[each.noted.spread_over_batches(MAX_ITEMS)] for each in (ours, theirs))
        if min(len(one), len(other)) >= MIN_ITEMS and chance_of(other) < TOO_RARE and chance_of(one) > RARE:
            yield InputReason.BATCH_ALIKE_IN_VALUES()
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
