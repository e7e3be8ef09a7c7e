"""Whether what enters the model is what enters the original's: rows of a table, text, noise, any kind of data.

If the original's items are always the same, each input must be one of them, with its target. If they are drawn anew,
the inputs must look like draws of the same kind: of the same item, where its target names it, of the same class, or
altogether. What the original's own epochs do not have in common is not asked of the candidate.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean

import numpy as np

from workshop.judge.inputs import MAX_CLASSES, Items, batches_of, drawn_items, figures_of, items_of
from workshop.judge.ledger import Ledger, epochs
from workshop.judge.two_samples import (
    RARE,
    TOO_RARE,
    Array,
    Strata,
    chance_of_batches,
    chance_of_distances,
    chance_of_figures,
    chance_of_repetitions,
)

MIN_EPOCHS = 3
"""So many epochs of the original are needed, to compare them with each other; and two of the candidate."""

MAX_STEPS = 50
"""What has no such epochs of its own is cut into pieces of this many steps, or fewer."""

SAME_INPUT = 1e-3
"""Two sketches belong to the same input if they differ by less than this part of the usual distance of two inputs. What
was kept in half precision gives 0.0003, in eight bits 0.005."""

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

MAX_ITEMS = 400
"""The number of items of each script that are compared as samples, chosen by chance."""

MAX_MIXED = 2000
"""The number of items of each script that are looked at for what those of a batch have in common."""

MIN_ITEMS = 24
"""With fewer items, no samples are compared."""


def check_inputs(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that what enters the model is what enters the original's."""
    if original.transforms and any(each.way for each in original.pictures):
        return  # how these pictures are made is seen transform by transform
    steps = _steps(original, candidate)
    ours, theirs = (items_of(ledger, steps) for ledger in (original, candidate))
    for place in sorted(ours.keys() & theirs.keys()):
        usual, now = ours[place], theirs[place]
        if len(usual) < MIN_ITEMS or len(now) < MIN_ITEMS or usual.have_targets != now.have_targets:
            continue
        drawn = drawn_items(original) if place == 0 else None
        known = known_items(original, usual) if place == 0 else None
        if known is None and is_fixed(usual):
            known = usual[usual.epochs == usual.epochs.min()]
        found = [*_check_variety(usual, now)] if known is None else [*_check_known(known, usual, now)]
        if known is None and not found:
            found = [*_check_samples(usual, now, drawn and drawn[0])]
        if found := found or [*_check_mixture(usual, now)]:
            yield found[0]
            return


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
    is_same = float(np.mean(off <= SAME_INPUT * _usual_distance(known))) >= MOSTLY
    return known if is_same and _share_known(known, usual.some(1000)) >= MOSTLY else None


def is_fixed(items: Items) -> bool:
    """Return whether each epoch has the same items, with the same targets."""
    numbers = np.unique(items.epochs)
    if len(numbers) < 2:
        return False
    reference, others = (items[items.epochs == number].some(1000) for number in numbers[:2])
    return (
        _share_known(items[items.epochs == numbers[0]], others)
        >= MOSTLY
        <= _share_known(items[items.epochs == numbers[1]], reference)
    )


def _share_known(known: Items, items: Items) -> float:
    return float(
        np.mean(
            [
                index is not None and known.targets[index] == items.targets[n]
                for n, index in enumerate(_places(known, items))
            ]
        )
    )


def _places(known: Items, items: Items) -> list[int | None]:
    """Return which of the known items each of these is, by its sketch; of several, one with the same target."""
    typical = _usual_distance(known)
    by_target: dict[object, list[int]] = {}
    for index, target in enumerate(known.targets):
        by_target.setdefault(target, []).append(index)
    squares, found = (known.sketches.astype(np.float64) ** 2).sum(1), []
    for sketch, target in zip(items.sketches.astype(np.float64), items.targets, strict=True):
        distances = np.maximum(squares - 2 * known.sketches @ sketch + sketch @ sketch, 0)
        nearest = [int(np.argmin(distances))]
        if own := by_target.get(target):
            nearest.insert(0, own[int(np.argmin(distances[own]))])
        close = [n for n in nearest if np.sqrt(((known.sketches[n] - sketch) ** 2).sum()) <= SAME_INPUT * typical]
        found.append(close[0] if close else None)
    return found


def _usual_distance(items: Items) -> float:
    dice = np.random.default_rng(0)
    one, other = (items.sketches[dice.integers(len(items), size=2000)].astype(np.float64) for _ in range(2))
    distances = np.sqrt(((one - other) ** 2).sum(1))
    return float(np.median(distances[distances > 0])) if distances.any() else 0.0


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
    typical = _usual_distance(usual)
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
    return len(np.unique(_rounded(some, typical), axis=0)), len(some)


def _rounded(items: Items, typical: float) -> Array:
    """Return sketches as whole numbers, the same ones for the same inputs."""
    return np.round(items.sketches / (SAME_INPUT * typical or 1.0)).astype(np.int64)


# Items that share a batch


def _check_mixture(usual: Items, now: Items) -> Iterator[str]:
    """Check that the items of a batch are no more alike in size or target than any others, if so in the original."""
    for what, figures in {"size": _sizes, "target": _target_figures}.items():
        some = (items[:MAX_MIXED] for items in (usual, now))
        own, chance = (chance_of_batches(figures(items), items.batches, items.epochs) for items in some)
        if chance < TOO_RARE and own > RARE:
            yield f"the items of a batch are alike in {what}, and the original mixes them: shuffle all of them"
            return


def _sizes(items: Items) -> Array:
    """Return how far each item is from nothing: of words, how many there are."""
    return np.sqrt((items.sketches.astype(np.float64) ** 2).sum(axis=1))


def _target_figures(items: Items) -> Array:
    figures = figures_of(items)
    return figures[0] if figures else np.zeros(len(items))


# Items that are drawn anew


def _check_samples(usual: Items, now: Items, drawn: Items | None) -> Iterator[str]:
    """Check that the inputs may come from where the original's come from.

    Where targets name the items, the standard is what was drawn from the dataset, else half of the original's epochs.
    """
    grouping, numbers = Grouping.of(usual), np.unique(usual.epochs)
    shared = min(len(numbers), len(np.unique(now.epochs)))
    if len(numbers) < MIN_EPOCHS or shared < 2:
        return
    parts = [usual[np.isin(usual.epochs, numbers[rest::3])] for rest in range(3)]
    usual, now = (items[np.isin(items.epochs, np.unique(items.epochs)[:shared])] for items in (usual, now))
    reference, rest = (usual[np.isin(usual.epochs, numbers[:shared][first::2])] for first in (0, 1))
    if grouping.names_items and drawn is not None:
        parts = [drawn, *(usual[usual.epochs % 2 == first] for first in (0, 1))]
        reference, rest = drawn, usual
    for test in TESTS:
        chance, says = test(reference, rest, now, grouping)
        if chance < TOO_RARE and test(parts[0], parts[1], parts[2], grouping)[0] > RARE:
            yield says
            return


@dataclass(frozen=True)
class Grouping:
    """What the targets of the original say about its inputs."""

    by_target: bool
    """Whether inputs are compared with those of the same target only: those of a class, or draws of the same item."""
    names_items: bool
    """Whether a target names an item, which comes again in each epoch."""

    @classmethod
    def of(cls, items: Items) -> "Grouping":
        """Return that of the original's items."""
        count = Counter(items.targets)
        first = set(items[items.epochs == items.epochs.min()].targets)
        others = items[items.epochs != items.epochs.min()].targets
        comes_again = mean(target in first for target in others) > 0.9 if others else False
        is_once = len(first) == (items.epochs == items.epochs.min()).sum()
        classes = len(count) <= MAX_CLASSES and len(items) >= 8 * len(count) and not is_once
        return cls(items.have_targets and (classes or comes_again), comes_again and not classes)


class _Samples:
    """Several samples, each of some items whose features are noted, as figures that can be compared.

    The first one is the standard. The targets are figures, too, where inputs of all targets are compared.
    """

    def __init__(self, grouping: Grouping, *samples: Items) -> None:
        known = {target: number for number, target in enumerate(dict.fromkeys(samples[0].targets))}
        if grouping.names_items:
            chosen = {target for target, number in known.items() if number < MAX_ITEMS // 4}
            samples = tuple(each[[target in chosen for target in each.targets]] for each in samples)
        some = [each.noted.some(MAX_ITEMS) for each in samples]
        self.sizes = [len(each) for each in some]
        self.are_enough = min(self.sizes) >= MIN_ITEMS and len({each.features.shape[1] for each in some}) == 1
        if not self.are_enough:
            return
        self.items = some
        ends = np.cumsum(self.sizes)[:-1]
        features = _standard(np.concatenate([each.features for each in some]), self.sizes[0])
        self.features = np.split(features, ends)
        self.strata = [
            np.array([known.get(target, -1) if grouping.by_target else 0 for target in each.targets]) for each in some
        ]
        figures = None if grouping.by_target else figures_of(*some)
        self.targets: list[Array] | None = None
        if figures:
            self.targets = np.split(_standard(np.concatenate(figures)[:, None], self.sizes[0])[:, 0], ends)

    @property
    def together(self) -> Strata:
        """Return which of the first two samples' items are compared."""
        return Strata(self.sizes[0], np.concatenate(self.strata[:2]), batches_of(*self.items[:2]))

    def distances(self, one: int, other: int, joint: bool = False) -> Array:
        """Return the distance of each item of a sample from each of another one; infinite in another stratum."""
        found = _distances(self.features[one], self.features[other])
        if joint and self.targets:
            found = np.sqrt(found**2 + (self.targets[one][:, None] - self.targets[other]) ** 2)
        return np.where(self.strata[one][:, None] == self.strata[other], found, np.inf)


def _distribution(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    samples = _Samples(grouping, reference.with_more(rest), now)
    if not samples.are_enough:
        return 1.0, ""
    chance = chance_of_distances(_whole(samples), samples.together)
    between, usual = (float(np.mean(d[np.isfinite(d)])) for d in (samples.distances(1, 0), samples.distances(0, 0)))
    which = "of the same target " if grouping.by_target else ""
    return chance, (
        f"the inputs are not distributed as the original's: on the average they differ from those {which}by "
        f"{between:.2f}, and those from each other by {usual:.2f}"
    )


def _repetition(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    samples = _Samples(grouping, reference.with_more(rest), now)
    if not samples.are_enough:
        return 1.0, ""
    strata = samples.together
    whole = _whole(samples)
    chance = chance_of_repetitions(whole, strata)
    nearest = np.argmin(np.where(strata.same, whole, np.inf), axis=1)
    share = float(np.mean(nearest[strata.first :] >= strata.first))
    return chance, (
        f"{share:.0%} of the inputs are most like another input of this script, where by chance it is "
        f"{samples.sizes[1] / len(whole):.0%}: much the same ones come again"
    )


def _likeness(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    typical = _usual_distance(reference)
    rest, now = (_without(reference, items, typical) for items in (rest, now))  # scripts that draw alike share many
    samples = _Samples(grouping, reference, rest, now)
    if not samples.are_enough:
        return 1.0, ""
    usual, found = (samples.distances(each, 0).min(axis=1) for each in (1, 2))
    usual, found = (np.where(np.isfinite(each), each, 1e9) for each in (usual, found))
    low, high = np.quantile(usual, [0.05, 0.95])
    less, more = int((found > high).sum()), int((found < low).sum())
    return _chance_of(usual, found, *samples.items[1:]), (
        f"{less} of {len(found)} inputs are less like the original's than 95% of its own: something else has made them"
        if less >= more
        else f"{more} of {len(found)} inputs are more like the original's than 95% of its own: they vary less"
    )


def _without(reference: Items, items: Items, typical: float) -> Items:
    """Leave out items that are in the reference, too."""
    keys = [[row.tobytes() for row in _rounded(each, typical)] for each in (reference, items)]
    known = set(keys[0])
    return items[np.array([key not in known for key in keys[1]], bool)]


def _relation(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    """How far the targets are from what a line through those of the reference says; of classes, one line each."""
    some = [each.noted.some(10 * MAX_ITEMS) for each in (reference, rest, now)]
    widths = {each.features.shape[1] for each in some}
    figures = figures_of(*some)
    if grouping.names_items or len(widths) > 1 or min(map(len, some)) < MIN_ITEMS + max(widths) or not figures:
        return 1.0, ""
    size, ends = len(some[0]), np.cumsum([len(each) for each in some])[:-1]
    features = _standard(np.concatenate([each.features for each in some]), size)
    features = np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)
    asked = np.concatenate(figures)[:, None]
    wanted = asked == np.unique(figures[0]) if grouping.by_target else _standard(asked, size)
    ours = features[:size]
    line = np.linalg.solve(ours.T @ ours + np.eye(ours.shape[1]) * size / 100, ours.T @ wanted[:size])
    off = np.sqrt(((features @ line - wanted) ** 2).sum(axis=1))
    _, usual, found = np.split(off, ends)
    return _chance_of(usual, found, *some[1:]), (
        "inputs do not come with targets such as the original's: these are off by "
        f"{found.mean():.2f} from what the inputs tell, in the original by {usual.mean():.2f}"
    )


def _histogram(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    one, other = (items.some(2 * MAX_ITEMS) for items in (reference.with_more(rest), now))
    if not (figures := figures_of(one, other)):
        return 1.0, ""
    ours, theirs = (Counter(each.targets) for each in (one, other))
    if len(ours) <= MAX_CLASSES:
        values = np.unique(np.concatenate(figures), return_inverse=True)[1]
        chance = chance_of_distances(values[:, None] != values, _unlike(one, other))
    else:
        chance = _chance_of(figures[0], figures[1], one, other)
    [(target, count)] = theirs.most_common(1)
    share, own = count / len(other), ours[target] / len(one)
    return chance, (
        f"the targets are not distributed as the original's: {len(theirs)} different ones among {len(other)}, in the "
        f"original {len(ours)} among {len(one)}; the most frequent one makes up {share:.0%}, there {own:.0%}"
    )


def _noise(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    """What is drawn anew for an item, such as noise: how large its peaks are, and whether the same comes again.

    It is an item's distance from the mean of the reference's, column by column.
    """
    some = [each.noted for each in (reference, rest, now)]
    if not grouping.names_items or len({each.features.shape[1] for each in some}) > 1:
        return 1.0, ""
    drawn: dict[object, list[Array]] = {}
    for target, features in zip(some[0].targets, some[0].features, strict=True):
        drawn.setdefault(target, []).append(features)
    middle = {target: np.mean(each, axis=0) for target, each in drawn.items()}
    one, other = (each[[target in middle for target in each.targets]].some(MAX_ITEMS) for each in some[1:])
    if min(len(one), len(other)) < MIN_ITEMS:
        return 1.0, ""
    off = [np.abs(each.features - [middle[target] for target in each.targets]) for each in (one, other)]
    spread = off[0].mean(axis=0)
    off = [each[:, spread > 0] / spread[spread > 0] for each in off]
    usual, found = (each.max(axis=1, initial=0) / np.maximum(each.mean(axis=1), 1e-12) for each in off)
    together = np.concatenate(off)
    again = chance_of_repetitions(_distances(together, together), _unlike(one, other))
    return min(again, _chance_of(usual, found, one, other)), (
        "what is drawn anew for each item is not drawn as in the original: it is distributed otherwise, or the same "
        "comes again for other items"
    )


TESTS = (_histogram, _likeness, _relation, _distribution, _repetition, _noise)


def _whole(samples: _Samples) -> Array:
    """Return the distances among all items of the first two samples."""
    rows = [np.concatenate([samples.distances(one, other, joint=True) for other in (0, 1)], axis=1) for one in (0, 1)]
    whole = np.concatenate(rows)
    return np.where(np.isfinite(whole), whole, 0.0)


def _chance_of(usual: Array, found: Array, one: Items, other: Items) -> float:
    return chance_of_figures(np.concatenate([usual, found]), _unlike(one, other))


def _unlike(one: Items, other: Items) -> Strata:
    """Return two samples whose items are all compared with each other."""
    return Strata(len(one), np.zeros(len(one) + len(other), np.int64), batches_of(one, other))


def _standard(figures: Array, first: int) -> Array:
    """Scale each column by the original's values."""
    middle = np.median(figures[:first], axis=0)
    spread = np.abs(figures[:first] - middle).mean(axis=0)
    scaled = (figures - middle) / np.where(spread > 0, spread, max(float(spread.max()), 1e-12))
    return np.clip(scaled, -6, 6).astype(np.float32)


def _distances(one: Array, other: Array) -> Array:
    """The root mean square difference of each from each."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    return np.sqrt(np.maximum(squares, 0) / one.shape[1])
