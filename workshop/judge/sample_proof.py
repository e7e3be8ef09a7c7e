"""Whether inputs that are drawn anew each time may come from where the original's come from: samples, compared.

Where the target of an input names its item, draws of the same item are compared; else those of a class, or all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np

from workshop.judge.drawn_anew import check_noise, check_noise_of_batches
from workshop.judge.inputs import MAX_CLASSES, Items, batches_of, figures_of
from workshop.judge.two_samples import (
    RARE,
    TOO_RARE,
    Array,
    Strata,
    counts_of,
    distances_between,
    standardised,
)

MIN_EPOCHS = 3
"""So many epochs of the original are needed, to compare them with each other; and two of the candidate."""

MAX_ITEMS = 400
"""The number of items of each script that are compared as samples, chosen by chance."""

MAX_COUNTED = 1500
"""The number of items of each script of which it is counted what they are made of, and which ones come again."""

MIN_VALUES = 16
"""Of inputs with fewer values, it is not looked at how neighbours differ."""

MIN_ITEMS = 24
"""With fewer items, no samples are compared."""


def check_samples(usual: Items, now: Items, drawn: Items | None) -> Iterator[str]:
    """Check that the inputs may come from where the original's come from.

    Where targets name the items, the standard is what was drawn from the dataset, else half of the original's epochs.
    That they do is seen in the dataset, too: epochs that were cut have few items in common.
    """
    groupings = [Grouping.of(usual)]
    if drawn is not None and usual.have_targets and (of_drawn := Grouping.of(drawn)).names_items:
        groupings.append(of_drawn)
    for grouping in dict.fromkeys(groupings):
        if found := _first_difference(usual, now, drawn, grouping):
            yield found
            return


def _first_difference(usual: Items, now: Items, drawn: Items | None, grouping: "Grouping") -> str | None:
    """Return what the first test says that can tell the samples apart."""
    numbers = np.unique(usual.epochs)
    shared = min(len(numbers), len(np.unique(now.epochs)))
    if len(numbers) < MIN_EPOCHS or shared < 2:
        return None
    order = np.minimum(np.arange(len(numbers)) % 6, 5 - np.arange(len(numbers)) % 6)  # what grows is as large in each
    parts = [usual[np.isin(usual.epochs, numbers[order == rest])] for rest in range(3)]
    usual, now = (items[np.isin(items.epochs, np.unique(items.epochs)[:shared])] for items in (usual, now))
    reference, rest = (usual[np.isin(usual.epochs, numbers[:shared][first::2])] for first in (0, 1))
    if grouping.names_items and drawn is not None:
        parts = [drawn, *(usual[usual.epochs % 2 == first] for first in (0, 1))]
        reference, rest = drawn, usual
    tests: list[Callable[[Items, Items, Items], tuple[float, str]]]
    tests = [partial(test, grouping=grouping) for test in TESTS]
    for test in [*tests, check_noise_of_batches, check_noise] if grouping.names_items else tests:
        chance, says = test(reference, rest, now)
        if chance < TOO_RARE and test(parts[0], parts[1], parts[2])[0] > RARE:
            return says
    return None


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

    def __init__(self, grouping: Grouping, *samples: Items, most: int = MAX_ITEMS) -> None:
        known = {target: number for number, target in enumerate(dict.fromkeys(samples[0].targets))}
        if grouping.names_items:
            chosen = {target for target, _ in Counter(samples[0].targets).most_common(most // 4)}
            samples = tuple(each[[target in chosen for target in each.targets]] for each in samples)
        some = [each.noted.some(most) for each in samples]
        self.sizes = [len(each) for each in some]
        self.are_enough = min(self.sizes) >= MIN_ITEMS and len({each.features.shape[1] for each in some}) == 1
        if not self.are_enough:
            return
        self.items = some
        ends = np.cumsum(self.sizes)[:-1]
        features = standardised(np.concatenate([each.features for each in some]), self.sizes[0])
        self.features = np.split(features, ends)
        self.strata = [
            np.array([known.get(target, -1) if grouping.by_target else 0 for target in each.targets]) for each in some
        ]
        width = {each.values.shape[1] for each in some}
        self.values = np.concatenate([each.values[:, : None if len(width) == 1 else 0] for each in some[:2]])
        figures = None if grouping.by_target else figures_of(*some)
        self.targets: list[Array] | None = None
        if figures:
            self.targets = np.split(standardised(np.concatenate(figures)[:, None], self.sizes[0])[:, 0], ends)

    @property
    def together(self) -> Strata:
        """Return which of the first two samples' items are compared."""
        return Strata(self.sizes[0], np.concatenate(self.strata[:2]), batches_of(*self.items[:2]))

    def distances(self, one: int, other: int, joint: bool = False) -> Array:
        """Return the distance of each item of a sample from each of another one; infinite in another stratum."""
        found = distances_between(self.features[one], self.features[other])
        if joint and self.targets:
            found = np.sqrt(found**2 + (self.targets[one][:, None] - self.targets[other]) ** 2)
        return np.where(self.strata[one][:, None] == self.strata[other], found, np.inf)


def _distribution(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    samples = _Samples(grouping, reference.with_more(rest), now)
    if not samples.are_enough:
        return 1.0, ""
    chance = samples.together.chance_of_distances(_whole(samples))
    between, usual = (float(np.mean(d[np.isfinite(d)])) for d in (samples.distances(1, 0), samples.distances(0, 0)))
    which = "of the same target " if grouping.by_target else ""
    return chance, (
        f"the inputs are not distributed as the original's: on the average they differ from those {which}by "
        f"{between:.2f}, and those from each other by {usual:.2f}"
    )


def _repetition(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    """Whether much the same inputs come again, or steps between two neighbouring values, as noise shows in these."""
    samples = _Samples(grouping, reference.with_more(rest), now, most=MAX_COUNTED)
    if not samples.are_enough:
        return 1.0, ""
    strata = samples.together
    looks = {"": _whole(samples)}
    if samples.values.shape[1] >= MIN_VALUES:
        before, after = (samples.values[:, first : samples.values.shape[1] // 2 * 2 : 2] for first in (0, 1))
        steps = standardised(after - before, strata.first)
        looks["in the steps between neighbouring values, "] = distances_between(steps, steps)
    chance, where = min(
        (min(strata.chance_of_repetitions(apart), strata.chance_of_near_pairs(apart)), where)
        for where, apart in looks.items()
    )
    if chance >= TOO_RARE:  # nothing will be said
        return chance, ""
    return chance, (
        f"{where}{strata.share_of_own(looks[where]):.0%} of what is most like an input of this script has entered it, "
        f"too, where by chance it is {samples.sizes[1] / len(strata.same):.0%}: much the same inputs come again"
    )


def _counts(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    samples = _Samples(grouping, reference.with_more(rest), now, most=MAX_COUNTED)
    if not samples.are_enough or not samples.values.size:
        return 1.0, ""
    strata = samples.together
    chances = map(strata.chance_of_counts, counts_of(samples.values))
    chance, what = min(zip(chances, ("values", "pairs of neighbours", "numbers of equal values"), strict=True))
    return chance, f"the inputs are not made of such values as the original's: other {what} are frequent"


def _likeness(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    typical = reference.usual_distance
    rest, now = (items.without(reference, typical) for items in (rest, now))  # scripts that draw alike share many
    samples = _Samples(grouping, reference, rest, now)
    if not samples.are_enough:
        return 1.0, ""
    usual, found = (samples.distances(each, 0).min(axis=1) for each in (1, 2))
    usual, found = (np.where(np.isfinite(each), each, 1e9) for each in (usual, found))
    low, high = np.quantile(usual, [0.05, 0.95])
    less, more = int((found > high).sum()), int((found < low).sum())
    return _together(*samples.items[1:]).chance_of_figures(np.concatenate([usual, found])), (
        f"{less} of {len(found)} inputs are less like the original's than 95% of its own: something else has made them"
        if less >= more
        else f"{more} of {len(found)} inputs are more like the original's than 95% of its own: they vary less"
    )


def _relation(reference: Items, rest: Items, now: Items, grouping: Grouping) -> tuple[float, str]:
    """How far the targets are from what a line through those of the reference says; of classes, one line each.

    The line is nearer to the items that it goes through: they are left out of the others, as scripts with the same seed
    share them.
    """
    typical = reference.usual_distance
    others, theirs = (items.without(reference, typical) for items in (rest, now))
    if 2 * len(others) >= len(rest):  # else there are so few different items that all of them come again
        rest, now = others, theirs
    some = [each.noted.some(10 * MAX_ITEMS) for each in (reference, rest, now)]
    widths = {each.features.shape[1] for each in some}
    figures = figures_of(*some)
    if grouping.names_items or len(widths) > 1 or min(map(len, some)) < MIN_ITEMS + max(widths) or not figures:
        return 1.0, ""
    size, ends = len(some[0]), np.cumsum([len(each) for each in some])[:-1]
    features = standardised(np.concatenate([each.features for each in some]), size)
    features = np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)
    asked = np.concatenate(figures)[:, None]
    wanted = asked == np.unique(figures[0]) if grouping.by_target else standardised(asked, size)
    ours = features[:size]
    line = np.linalg.solve(ours.T @ ours + np.eye(ours.shape[1]) * size / 100, ours.T @ wanted[:size])
    off = np.sqrt(((features @ line - wanted) ** 2).sum(axis=1))
    _, usual, found = np.split(off, ends)
    return _together(*some[1:]).chance_of_figures(off[size:]), (
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
        chance = _together(one, other).chance_of_distances(values[:, None] != values)
    else:
        chance = _together(one, other).chance_of_figures(np.concatenate(figures))
    [(target, count)] = theirs.most_common(1)
    share, own = count / len(other), ours[target] / len(one)
    return chance, (
        f"the targets are not distributed as the original's: {len(theirs)} different ones among {len(other)}, in the "
        f"original {len(ours)} among {len(one)}; the most frequent one makes up {share:.0%}, there {own:.0%}"
    )


TESTS = (_histogram, _likeness, _relation, _distribution, _repetition, _counts)


def _whole(samples: _Samples) -> Array:
    """Return the distances among all items of the first two samples."""
    rows = [np.concatenate([samples.distances(one, other, joint=True) for other in (0, 1)], axis=1) for one in (0, 1)]
    whole = np.concatenate(rows)
    return np.where(np.isfinite(whole), whole, 0.0)


def _together(one: Items, other: Items) -> Strata:
    return Strata.of_all(len(one), batches_of(one, other))
