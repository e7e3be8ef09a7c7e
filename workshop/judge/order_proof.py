"""Whether each epoch shuffles the items anew, and does not keep them together in the same batches."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, pairwise
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from workshop.judge.inputs import sketches_of
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.two_samples import MAX_DEVIATIONS

MIN_COUNT = 10
"""Items, at least, that can be told apart, for their order to be checked."""

SAME_ORDER = 0.9
"""Rank correlation, at most, of positions in two epochs; under chance, its deviation is 1 / sqrt(items - 1)."""

MIN_FOR_ALIKE = 25
"""Items, at least, for an order that is nearly the same to count as the same, and for batches to be seen again once."""

SAME_PAIRS = 0.8
"""Share, at most, of the items that may be together again in a later epoch, in a batch or next to each other."""


class OrderReason(ReasonKind):
    """What is said of an order that is not drawn anew in each epoch."""

    REPEATED = "the items come in the order of an earlier epoch: use shuffle=True, or call the sampler's set_epoch()"
    SAME_BATCHES = (
        "{share:.0%} of the items that share a batch shared one in an earlier epoch: shuffle items, not batches"
    )
    SAME_NEIGHBOURS = (
        "{share:.0%} of the items that follow each other did so in an earlier epoch: shuffle all of them anew"
    )
    ALIKE = (
        "the items come in much the same order in each epoch: the correlation of their positions is {correlation:.2f}, "
        "and by chance it is 0: shuffle all of them, not a part at a time"
    )


class _Likeness(NamedTuple):
    """How similar two epochs are; each share is at most 1."""

    items: int
    """The number of distinguishable items that occur in both."""
    order: float
    """The rank correlation of the items' positions (Spearman's)."""
    company: float
    """The share of pairs of items in one batch that share a batch in the other epoch, too."""
    succession: float
    """The share of neighbouring items that are neighbours in the other epoch, too."""

    @property
    def is_same_order(self) -> bool:
        return self.order > (SAME_ORDER if self.items >= MIN_FOR_ALIKE else 0.999)


Run = list[list[list[Any]]]
"""What stands for each item of each batch of each epoch of a run."""


def repeats_order(ledger: Ledger, steps: int) -> bool:
    """Return whether an epoch, of so many steps, had its items in the order of an earlier one."""
    runs = [*_by_target(ledger, steps), *_by_index(ledger, steps)]
    return any(each.is_same_order for each in _likenesses(runs))


def check_order(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the order and the batches of the items differ in each epoch, if they do in the original.

    An item is known by its target, if no other has the same, by the index that it was asked for, or by itself.
    """
    steps = len(epochs(original)[0])
    for runs_of in (_by_target, _by_index, _by_sketch):
        ours, theirs = (list(_likenesses(runs_of(ledger, steps))) for ledger in (original, candidate))
        if ours and theirs and (found := [*_differences(ours, theirs)]):
            yield found[0]
            return


def _differences(ours: "list[_Likeness]", theirs: "list[_Likeness]") -> Iterator[Reason]:
    alike = MAX_DEVIATIONS / math.sqrt((mean(each.items for each in theirs) - 1) * len(theirs))
    our_company, company = map(_company, (ours, theirs))
    our_succession, succession = (max(each.succession for each in some) for some in (ours, theirs))
    our_order, order = (mean(each.order for each in some) for some in (ours, theirs))
    if not any(each.is_same_order for each in ours) and any(each.is_same_order for each in theirs):
        yield OrderReason.REPEATED()
    elif our_company < SAME_PAIRS < company:
        yield OrderReason.SAME_BATCHES(share=company)
    elif our_succession < SAME_PAIRS < succession:
        yield OrderReason.SAME_NEIGHBOURS(share=succession)
    elif our_order < alike < order:
        yield OrderReason.ALIKE(correlation=order)


def _company(likenesses: list[_Likeness]) -> float:
    """Return the largest share of items that are together again.

    If there are few items, it is the second largest: ten items in two batches are divided in the same way by chance, in
    1 of 126 pairs of epochs.
    """
    are_few = likenesses[0].items < MIN_FOR_ALIKE and len(likenesses) > 1
    return sorted(each.company for each in likenesses)[-2 if are_few else -1]


def _by_target(ledger: Ledger, steps: int) -> list[Run]:
    by_run: dict[int, Run] = {}
    for epoch in epochs(ledger, steps):
        by_run.setdefault(epoch[0].run_index, []).append([list(each.targets or ()) for each in forwards_in(epoch)])
    return list(by_run.values())


def _by_sketch(ledger: Ledger, steps: int) -> list[Run]:
    by_run: dict[int, Run] = {}
    for epoch in epochs(ledger, steps):
        passes = [each for each in forwards_in(epoch) if each.inputs]
        names = [[row.tobytes() for row in np.round(sketches_of(each), 4)] for each in passes]
        by_run.setdefault(epoch[0].run_index, []).append(names)
    return list(by_run.values())


def _by_index(ledger: Ledger, _: int) -> list[Run]:
    """Return those of the first dataset, in the epochs of its DataLoaders."""
    by_epoch: dict[int, dict[int, list[list[Any]]]] = {}
    for step in ledger.steps:
        for each in step.asked:
            if each.dataset == 0:
                by_epoch.setdefault(step.run_index, {}).setdefault(each.epoch, []).append(list(each.indexes))
    return [list(run.values()) for run in by_epoch.values()]


def _likenesses(runs: list[Run]) -> Iterator[_Likeness]:
    """Compare each epoch with those after it in the same run; a new run may well repeat an old one.

    What occurs more than once in an epoch is left out: it does not identify an item.
    """
    for run in runs:
        counts = [Counter(chain(*epoch)) for epoch in run]
        of_run = [
            [[each for each in batch if count[each] == 1] for batch in epoch]
            for epoch, count in zip(run, counts, strict=True)
        ]
        for before, after in combinations(of_run, 2):
            common = set(chain(*before)) & set(chain(*after))
            if len(common) >= MIN_COUNT:
                yield _likeness(*([[each for each in batch if each in common] for batch in e] for e in (before, after)))


def _likeness(before: list[list[Any]], after: list[list[Any]]) -> _Likeness:
    place = {item: number for number, item in enumerate(chain(*before))}
    batch_of = {item: number for number, batch in enumerate(before) for item in batch}
    places = [place[item] for item in chain(*after)]
    order = float(np.corrcoef(np.arange(len(places)), places)[0, 1])
    pairs = sum(math.comb(len(batch), 2) for batch in after)
    both = sum(math.comb(n, 2) for batch in after for n in Counter(batch_of[item] for item in batch).values())
    company = both / pairs if pairs >= MIN_COUNT else 0.0
    succession = mean(abs(one - other) == 1 for one, other in pairwise(places))
    return _Likeness(len(places), order, company, succession)
