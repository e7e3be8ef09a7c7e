"""Whether the inputs of recorded steps are what the original makes of the same items: the same, or drawn alike."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from workshop.judge.ledger import Ledger
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.two_samples import MAX_BY_CHANCE, MAX_DEVIATIONS
from workshop.probe.messages import MadeAnew, Recomputation
from workshop.probe.settings import DRAWS

SAME_DRAW = 0.03
"""Share of the deviation of all values, at most, by which what is made with the same draws may be off. For photos
decoded otherwise, but honestly, it is below 0.01; for bicubic interpolation 0.06, a JPEG draft 0.09, greyscale 1.1."""

MAX_CHANCE_OF_NEAREST = 1e-4
"""Chance, at most, that so many items are by chance nearest to what their seeds make, to know that these made them."""

MAX_BY_CHANCE_IF_OTHERS = 1e-4
"""Chance, at most, by which targets would be as much alike if the items were others, to know that they are the same."""


class ItemReason(ReasonKind):
    """What is said of inputs that the original has made anew, of the items that were asked for."""

    OTHER_INPUTS = "{count} of {items} inputs of sampled steps are not what the original makes of the same items"
    OFF = (
        "{count} of {items} inputs of sampled steps are not what the original makes of the same items with the same "
        "draws: they are off by {error:.0%} of what they vary, where honest decoders make 1 %"
    )
    OFF_IN_PART = "{0}; whether something else is drawn anew in them cannot be seen", UNSEEN
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


def check_made_anew(
    original: Ledger, candidate: Ledger, draws_are_known: bool = False, draws_are_shared: bool = False
) -> Iterator[Reason]:
    """Check that the inputs of recorded steps are the same, or drawn alike, if those of the original's own are.

    `draws_are_known` tells whether it is seen that all which the original draws for an item is drawn by the candidate,
    and `draws_are_shared` whether it is seen that these draws are the same for the same seed and index.
    """
    made = _compared(candidate.recomputed)
    if not made or any(_differences(_compared(original.recomputed))):
        return
    if found := [*_differences(made, draws_are_shared)]:
        off = {} if draws_are_known else {ItemReason.OFF: ItemReason.OFF_IN_PART}
        found = [off[each.kind](each) if each.kind in off else each for each in found]
        is_known = draws_are_shared or math.prod(each.by_chance for each in made) < MAX_BY_CHANCE_IF_OTHERS
        yield min(found, key=lambda each: each.is_unseen) if is_known else ItemReason.OTHER_ITEMS()
    elif _is_in_part(made):
        yield ItemReason.SAME_IN_PART()


def are_made_alike(recomputed: Sequence[Recomputation]) -> bool:
    """Return whether inputs of recorded steps are what the original makes of the same items, with the same draws."""
    made = _compared(recomputed)
    return bool(made) and not _is_in_part(made) and not any(_differences(made)) and _draws_are_the_same(_seeded(made))


def _compared(recomputed: Sequence[Recomputation]) -> list[MadeAnew]:
    return [each.made for each in recomputed if each.made and not each.made.error]


def _differences(made: Sequence[MadeAnew], draws_are_shared: bool = False) -> Iterator[Reason]:
    """Yield what shows that inputs are others than those of the same items."""
    items, same = (sum(getattr(each, name) for each in made) for name in ("items", "same"))
    if items - same <= MAX_BY_CHANCE * items:
        return
    others = sum(each.others for each in made)
    if others > MAX_BY_CHANCE * items:
        yield ItemReason.OTHER_INPUTS(count=others, items=items)
        return
    seeded = _seeded(made)
    if draws_are_shared or (_draws_are_the_same(seeded) and not _is_in_part(made)):
        items = sum(each.items for each in seeded)
        wrong = [error for each in seeded for error in each.errors if error > SAME_DRAW]
        if len(wrong) <= MAX_BY_CHANCE * items:
            return
        yield ItemReason.OFF(count=len(wrong), items=items, error=np.median(wrong))
    looks = dict.fromkeys(likeness.look for each in made for likeness in each.likenesses)
    deviations = {look: _deviation(made, look) for look in looks}
    look = max(deviations, key=lambda look: abs(deviations[look]), default="")
    if abs(deviations.get(look, 0.0)) > MAX_DEVIATIONS:
        which = "further from" if deviations[look] > 0 else "nearer to"
        yield ItemReason.DRAWN_OTHERWISE(look=look, which=which)


def _is_in_part(made: Sequence[MadeAnew]) -> bool:
    return sum(each.in_part for each in made) > sum(each.items for each in made) / 2


def _seeded(made: Sequence[MadeAnew]) -> list[MadeAnew]:
    """Return the steps in which the draws of both scripts began with the same seeds, as far as that can be seen."""
    return [each for each in made if each.same == each.items or (each.is_seeded and each.varies)]


def _draws_are_the_same(seeded: Sequence[MadeAnew]) -> bool:
    """Return whether inputs are made with the draws of the same seeds: most are nearest to what these make.

    If they were not, an item would be nearest to it as often as to each of the other draws.
    """
    items = sum(each.items for each in seeded)
    nearest = sum(each.items if each.same == each.items else each.nearest for each in seeded)
    one = 1 / (1 + DRAWS)
    chance = sum(math.comb(items, n) * one**n * (1 - one) ** (items - n) for n in range(nearest, items + 1))
    return nearest > items / 2 and chance < MAX_CHANCE_OF_NEAREST


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
