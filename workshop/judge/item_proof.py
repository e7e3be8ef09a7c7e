"""Whether the inputs of recorded steps are what the original makes of the same items: the same, or drawn alike."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workshop.judge.ledger import Ledger
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.transform_proof import MAX_BY_CHANCE
from workshop.judge.two_samples import MAX_DEVIATIONS
from workshop.probe.messages import MadeAnew, Recomputation


class ItemReason(ReasonKind):
    """What is said of inputs that the original has made anew, of the items that were asked for."""

    OTHER_INPUTS = "{count} of {items} inputs of sampled steps are not what the original makes of the same items"
    DRAWN_OTHERWISE = (
        "the inputs of sampled steps are not drawn as in the original: in their {look}, they are {which} its draws of "
        "the same items than such draws are to each other"
    )
    SAME_IN_PART = (
        "some inputs of the sampled steps are what the original makes with the same draws, and others beside them are "
        "not: whether these are drawn alike cannot be seen",
        UNSEEN,
    )
    OTHER_ITEMS = (
        "the inputs of sampled steps are not what the original makes of the items of the same indexes: which items "
        "they are cannot be seen",
        UNSEEN,
    )


def check_made_anew(original: Ledger, candidate: Ledger) -> Iterator[Reason]:
    """Check that the inputs of recorded steps are the same, or drawn alike, if those of the original's own are."""
    made = _compared(candidate.recomputed)
    if not made or _difference(_compared(original.recomputed)):
        return
    if found := _difference(made):
        yield found if any(each.is_known for each in made) else ItemReason.OTHER_ITEMS()
    elif sum(each.in_part for each in made) > sum(each.items for each in made) / 2:
        yield ItemReason.SAME_IN_PART()


def _compared(recomputed: Sequence[Recomputation]) -> list[MadeAnew]:
    return [each.made for each in recomputed if each.made and not each.made.error]


def _difference(made: Sequence[MadeAnew]) -> Reason | None:
    """Return what shows that inputs are others than those of the same items."""
    items, others = sum(each.items for each in made), sum(each.items - each.same for each in made)
    if others <= MAX_BY_CHANCE * items:
        return None
    if not any(each.varies for each in made):
        return ItemReason.OTHER_INPUTS(count=others, items=items)
    looks = dict.fromkeys(likeness.look for each in made for likeness in each.likenesses)
    deviations = {look: _deviation(made, look) for look in looks}
    look = max(deviations, key=lambda look: abs(deviations[look]))
    if abs(deviations[look]) <= MAX_DEVIATIONS:
        return None
    return ItemReason.DRAWN_OTHERWISE(look=look, which="further from" if deviations[look] > 0 else "nearer to")


def _deviation(made: Sequence[MadeAnew], look: str) -> float:
    """Return by how many standard deviations the inputs are further from the original's draws than these are.

    Ranks of as many draws are expected to be half of their number. How much the mean of a batch deviates by chance is
    seen in those of the original's own draws; it cannot be less than where all items are drawn by themselves.
    """
    of_batches = [each for one in made for each in one.likenesses if each.look == look]
    ranks = np.array([each.ranks for each in of_batches])
    draws = ranks.shape[1]
    by_chance = ranks[:, 1:].var(axis=1, ddof=1).mean() / len(ranks)
    least = (draws**2 - 1) / 12 / sum(each.items for each in of_batches)
    return float(ranks[:, 0].mean() - (draws - 1) / 2) / math.sqrt(max(by_chance, least))
