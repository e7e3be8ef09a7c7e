"""Whether a script asks its dataset for the same items: how many, from where, how often, and how they are mixed.

Its DataLoader's indexes tell so, whatever the items are: after a few batches of a long epoch, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workshop.judge.inputs import may_be_alike
from workshop.judge.ledger import Ledger
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.two_samples import MAX_BY_CHANCE, Array
from workshop.probe.events import LoaderStarted

MIN_ASKED = 24
"""Items, at least, that both scripts have asked for, to compare them."""


class AskedReason(ReasonKind):
    """What is said of the items that a DataLoader asks its dataset for."""

    OTHER_LENGTH = "an epoch of its DataLoader has {candidate:,} items, the original's {original:,}"
    AGAIN = (
        "of the items of an epoch, {candidate:.0%} come again before it is over, in the original {original:.0%}: each "
        "must come once"
    )
    OTHER_RANGE = (
        "the items do not come from all places of the dataset: half of their indexes are from {candidate[0]:.0f} to "
        "{candidate[1]:.0f}, in the original from {original[0]:.0f} to {original[1]:.0f}"
    )
    OTHER_WEIGHTS = (
        "the items are not drawn as often as the original's sampler draws them: on the average they are some that it "
        "draws {candidate:.1f} times, in the original {original:.1f}"
    )
    NEIGHBOURS_IN_BATCH = (
        "two items of a batch are {candidate:.0f} apart in the dataset, in the original {original:.0f}: shuffle all of "
        "them, not a part at a time"
    )
    NEIGHBOURS_IN_BATCHES = (
        "batches that follow each other are {candidate:.0f} apart in the dataset, in the original {original:.0f}: "
        "shuffle all items anew in each epoch"
    )


@dataclass(frozen=True)
class AskedItems:
    """What a dataset was asked for."""

    batches: list[Array]
    """The indexes of each batch."""
    epochs: Array
    """The number of the DataLoader's epoch that each batch is of, another one in each run."""
    loader: LoaderStarted

    @cached_property
    def indexes(self) -> Array:
        """Those of all batches, one after the other."""
        return np.concatenate(self.batches)

    @cached_property
    def apart_in_batch(self) -> Array:
        """How far two items of a batch are apart in the dataset, in pairs that are made by chance."""
        dice = np.random.default_rng(0)
        pairs = [dice.permutation(batch)[: len(batch) // 2 * 2].reshape(-1, 2) for batch in self.batches]
        return np.abs(np.diff(np.concatenate(pairs), axis=1))[:, 0]

    @cached_property
    def apart_in_succession(self) -> Array:
        """How far the mean of a batch is from that of the batch before, in the same epoch."""
        means = np.array([batch.mean() for batch in self.batches])
        return np.abs(np.diff(means))[np.diff(self.epochs) == 0]

    def share_again(self, items: int) -> float:
        """Return the share that comes again among so many in a row, counted from the beginning of an epoch."""
        found = []
        for epoch in np.unique(self.epochs):
            indexes = np.concatenate([self.batches[place] for place in np.flatnonzero(self.epochs == epoch)])
            rows = [indexes[first : first + items] for first in range(0, len(indexes), items)]
            found += [(len(row) - len(np.unique(row)), len(row)) for row in rows]
        return sum(again for again, _ in found) / sum(of for _, of in found)


def asked_items(ledger: Ledger) -> AskedItems | None:
    """Return what the dataset was asked for; None if that is not known, or if its items are not those of the model.

    A dataset may have whole batches for items, or tiles of a picture; and a script may have several of them.
    """
    asked = [(step.run_index, each) for step in ledger.steps for each in step.asked if each.dataset == 0]
    loaders = [each for each in ledger.loaders if each.dataset == 0]
    if not asked or not loaders or len({each.dataset for each in ledger.loaders}) > 1:
        return None
    batches = [np.array(each.indexes) for _, each in asked]
    entered = {forward.shape[0] for forward in ledger.forwards}
    if sum(len(batch) in entered for batch in batches) < (1 - MAX_BY_CHANCE) * len(batches):
        return None
    numbers = {key: number for number, key in enumerate(dict.fromkeys((run, each.epoch) for run, each in asked))}
    return AskedItems(batches, np.array([numbers[run, each.epoch] for run, each in asked]), loaders[0])


def check_asked(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the candidate's DataLoader asks for such items as the original's."""
    ours, theirs = map(asked_items, (original, candidate))
    if ours is None or theirs is None:
        return
    expected, items = ours.loader.items, theirs.loader.items
    if expected and items and expected != items:
        yield AskedReason.OTHER_LENGTH(candidate=items, original=expected)
        return
    if min(len(ours.indexes), len(theirs.indexes)) < MIN_ASKED:
        return
    again, by_original = (each.share_again(expected or len(each.indexes)) for each in (theirs, ours))
    if by_original == 0 and again > MAX_BY_CHANCE:
        yield AskedReason.AGAIN(candidate=again, original=by_original)
    elif found := [*_check_neighbours(ours, theirs)]:
        yield found[0]
    elif ours.loader.of == theirs.loader.of:
        yield from _check_places(original, ours, theirs)


def _check_neighbours(ours: AskedItems, theirs: AskedItems) -> Iterator[Reason]:
    """Check that the items of a batch, and of the next one, are as far apart in the dataset as in the original."""
    looks = (
        (AskedReason.NEIGHBOURS_IN_BATCH, ours.apart_in_batch, theirs.apart_in_batch),
        (AskedReason.NEIGHBOURS_IN_BATCHES, ours.apart_in_succession, theirs.apart_in_succession),
    )
    for kind, original, candidate in looks:
        if min(len(original), len(candidate)) >= MIN_ASKED and not may_be_alike(original, candidate):
            yield kind(candidate=candidate.mean(), original=original.mean())
            return


def _check_places(original: Ledger, ours: AskedItems, theirs: AskedItems) -> Iterator[Reason]:
    """Check that the items come from all places of the dataset, and those often that the original's sampler prefers."""
    dice = np.random.default_rng(0)
    own, found = (dice.permutation(each.indexes) for each in (ours, theirs))
    if not may_be_alike(own, found):
        middle, expected = (np.quantile(indexes, [0.25, 0.75]) for indexes in (found, own))
        yield AskedReason.OTHER_RANGE(candidate=middle, original=expected)
    elif original.sampled and original.sampled.indexes:
        often = dict(zip(original.sampled.indexes, original.sampled.counts, strict=True))
        own, found = (np.array([often.get(int(index), 0) for index in each]) for each in (own, found))
        if not may_be_alike(own, found):
            yield AskedReason.OTHER_WEIGHTS(candidate=found.mean(), original=own.mean())
