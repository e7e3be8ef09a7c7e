"""Whether inputs that are drawn anew each time may come from where the original's come from: samples, compared.

Where the target of an input names its item, draws of the same item are compared; else those of a class, or all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np

from workshop.judge.drawn_anew import MIN_ITEMS, Difference, check_noise, check_noise_of_batches
from workshop.judge.inputs import MAX_CLASSES, MAX_ITEMS, Items, batches_of, figures_of
from workshop.judge.reasons import Reason, ReasonKind
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
"""Epochs of the original, at least, to compare them with each other; two are enough of the candidate."""

MAX_COUNTED = 1500
"""Items of each script, at most, of which it is counted what they are made of, and which ones come again."""

MIN_VALUES = 16
"""Values of an input, at least, for neighbouring ones to be compared."""


class SampleReason(ReasonKind):
    """What is said of inputs that are drawn anew each time, as samples."""

    OTHER_INPUTS = (
        "the inputs are not distributed as the original's: on the average they differ from those by {between:.2f}, and "
        "those from each other by {within:.2f}"
    )
    OTHER_INPUTS_OF_TARGET = (
        "the inputs are not distributed as the original's: on the average they differ from those of the same target by "
        "{between:.2f}, and those from each other by {within:.2f}"
    )
    AGAIN = (
        "{share:.0%} of what is most like an input of this script has entered it, too, where by chance it is "
        "{by_chance:.0%}: much the same inputs come again"
    )
    STEPS_AGAIN = (
        "in the steps between neighbouring values, {share:.0%} of what is most like an input of this script has "
        "entered it, too, where by chance it is {by_chance:.0%}: much the same inputs come again"
    )
    OTHER_VALUES = "the inputs are not made of such values as the original's: other values are frequent"
    OTHER_NEIGHBOURS = (
        "the inputs are not made of such values as the original's: other pairs of neighbours are frequent"
    )
    OTHER_EQUALS = (
        "the inputs are not made of such values as the original's: other numbers of equal values are frequent"
    )
    UNLIKE = "{count} of {inputs} inputs are less like the original's than 95% of its own: something else has made them"
    LESS_VARIED = "{count} of {inputs} inputs are more like the original's than 95% of its own: they vary less"
    UNRELATED = (
        "inputs do not come with targets such as the original's: these are off by {candidate:.2f} from what the inputs "
        "tell, in the original by {original:.2f}"
    )
    OTHER_TARGETS = (
        "the targets are not distributed as the original's: {candidate[0]} different ones among {candidate[1]}, in the "
        "original {original[0]} among {original[1]}; the most frequent one makes up {share:.0%}, there {expected:.0%}"
    )


def check_samples(ours: Items, theirs: Items, drawn: Items | None) -> Iterator[Reason]:
    """Check that the inputs may come from where the original's come from.

    Where targets name the items, the standard is what was drawn from the dataset, else half of the original's epochs.
    That they do is seen in the dataset, too: epochs that were cut have few items in common.
    """
    groupings = [Grouping.of(ours)]
    if drawn is not None and ours.have_targets and (of_drawn := Grouping.of(drawn)).names_items:
        groupings.append(of_drawn)
    for grouping in dict.fromkeys(groupings):
        if found := _first_difference(ours, theirs, drawn, grouping):
            yield found
            return


def _first_difference(ours: Items, theirs: Items, drawn: Items | None, grouping: "Grouping") -> Reason | None:
    """Return what the first test says that can tell the samples apart."""
    numbers = np.unique(ours.epochs)
    shared = min(len(numbers), len(np.unique(theirs.epochs)))
    if len(numbers) < MIN_EPOCHS or shared < 2:
        return None
    order = np.minimum(np.arange(len(numbers)) % 6, 5 - np.arange(len(numbers)) % 6)  # what grows is as large in each
    parts = [ours[np.isin(ours.epochs, numbers[order == rest])] for rest in range(3)]
    ours, theirs = (items[np.isin(items.epochs, np.unique(items.epochs)[:shared])] for items in (ours, theirs))
    reference, rest = (ours[np.isin(ours.epochs, numbers[:shared][first::2])] for first in (0, 1))
    if grouping.names_items and drawn is not None:
        parts = [drawn, *(ours[ours.epochs % 2 == first] for first in (0, 1))]
        reference, rest = drawn, ours
    tests: list[Callable[[Items, Items, Items], Difference]]
    tests = [partial(test, grouping=grouping) for test in TESTS]
    for test in [*tests, check_noise_of_batches, check_noise] if grouping.names_items else tests:
        chance, reason = test(reference, rest, theirs)
        if chance < TOO_RARE and test(parts[0], parts[1], parts[2])[0] > RARE:
            return reason
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


def _distribution(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    samples = _Samples(grouping, reference.with_more(rest), theirs)
    if not samples.are_enough:
        return 1.0, None
    chance = samples.together.chance_of_distances(_whole(samples))
    between, within = (float(np.mean(d[np.isfinite(d)])) for d in (samples.distances(1, 0), samples.distances(0, 0)))
    kind = SampleReason.OTHER_INPUTS_OF_TARGET if grouping.by_target else SampleReason.OTHER_INPUTS
    return chance, kind(between=between, within=within)


def _repetition(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    """Whether much the same inputs come again, or steps between two neighbouring values, as noise shows in these."""
    samples = _Samples(grouping, reference.with_more(rest), theirs, most=MAX_COUNTED)
    if not samples.are_enough:
        return 1.0, None
    strata = samples.together
    looks = {SampleReason.AGAIN: _whole(samples)}
    if samples.values.shape[1] >= MIN_VALUES:
        before, after = (samples.values[:, first : samples.values.shape[1] // 2 * 2 : 2] for first in (0, 1))
        steps = standardised(after - before, strata.first)
        looks[SampleReason.STEPS_AGAIN] = distances_between(steps, steps)
    chances = {
        kind: min(strata.chance_of_repetitions(apart), strata.chance_of_near_pairs(apart))
        for kind, apart in looks.items()
    }
    kind = min(chances, key=chances.__getitem__)
    if chances[kind] >= TOO_RARE:  # nothing will be said
        return chances[kind], None
    by_chance = samples.sizes[1] / len(strata.same)
    return chances[kind], kind(share=strata.share_of_own(looks[kind]), by_chance=by_chance)


def _counts(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    samples = _Samples(grouping, reference.with_more(rest), theirs, most=MAX_COUNTED)
    if not samples.are_enough or not samples.values.size:
        return 1.0, None
    chances = list(map(samples.together.chance_of_counts, counts_of(samples.values)))
    kinds = SampleReason.OTHER_VALUES, SampleReason.OTHER_NEIGHBOURS, SampleReason.OTHER_EQUALS
    rarest = min(reversed(range(len(kinds))), key=chances.__getitem__)
    return chances[rarest], kinds[rarest]()


def _likeness(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    rest, theirs = (items.without(reference) for items in (rest, theirs))  # what draws alike shares many
    samples = _Samples(grouping, reference, rest, theirs)
    if not samples.are_enough:
        return 1.0, None
    own, found = (samples.distances(each, 0).min(axis=1) for each in (1, 2))
    own, found = (np.where(np.isfinite(each), each, 1e9) for each in (own, found))
    low, high = np.quantile(own, [0.05, 0.95])
    less, more = int((found > high).sum()), int((found < low).sum())
    kind = SampleReason.UNLIKE if less >= more else SampleReason.LESS_VARIED
    chance = _together(*samples.items[1:]).chance_of_figures(np.concatenate([own, found]))
    return chance, kind(count=max(less, more), inputs=len(found))


def _relation(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    """How far the targets are from what a line through those of the reference says; of classes, one line each.

    The line is nearer to the items that it goes through: they are left out of the others, as scripts with the same seed
    share them.
    """
    others, new = (items.without(reference) for items in (rest, theirs))
    if 2 * len(others) >= len(rest):  # else there are so few different items that all of them come again
        rest, theirs = others, new
    some = [each.noted.some(10 * MAX_ITEMS) for each in (reference, rest, theirs)]
    widths = {each.features.shape[1] for each in some}
    figures = figures_of(*some)
    if grouping.names_items or len(widths) > 1 or min(map(len, some)) < MIN_ITEMS + max(widths) or not figures:
        return 1.0, None
    size, ends = len(some[0]), np.cumsum([len(each) for each in some])[:-1]
    features = standardised(np.concatenate([each.features for each in some]), size)
    features = np.concatenate([features, np.ones((len(features), 1), np.float32)], axis=1)
    asked = np.concatenate(figures)[:, None]
    wanted = asked == np.unique(figures[0]) if grouping.by_target else standardised(asked, size)
    ours = features[:size]
    line = np.linalg.solve(ours.T @ ours + np.eye(ours.shape[1]) * size / 100, ours.T @ wanted[:size])
    off = np.sqrt(((features @ line - wanted) ** 2).sum(axis=1))
    _, own, found = np.split(off, ends)
    chance = _together(*some[1:]).chance_of_figures(off[size:])
    return chance, SampleReason.UNRELATED(candidate=found.mean(), original=own.mean())


def _histogram(reference: Items, rest: Items, theirs: Items, grouping: Grouping) -> Difference:
    one, other = (items.some(2 * MAX_ITEMS) for items in (reference.with_more(rest), theirs))
    if not (figures := figures_of(one, other)):
        return 1.0, None
    of_one, of_other = (Counter(each.targets) for each in (one, other))
    if len(of_one) <= MAX_CLASSES:
        values = np.unique(np.concatenate(figures), return_inverse=True)[1]
        chance = _together(one, other).chance_of_distances(values[:, None] != values)
    else:
        chance = _together(one, other).chance_of_figures(np.concatenate(figures))
    [(target, count)] = of_other.most_common(1)
    return chance, SampleReason.OTHER_TARGETS(
        candidate=(len(of_other), len(other)),
        original=(len(of_one), len(one)),
        share=count / len(other),
        expected=of_one[target] / len(one),
    )


TESTS = (_histogram, _likeness, _relation, _distribution, _repetition, _counts)


def _whole(samples: _Samples) -> Array:
    rows = [np.concatenate([samples.distances(one, other, joint=True) for other in (0, 1)], axis=1) for one in (0, 1)]
    whole = np.concatenate(rows)
    return np.where(np.isfinite(whole), whole, 0.0)


def _together(one: Items, other: Items) -> Strata:
    return Strata.of_all(len(one), batches_of(one, other))
