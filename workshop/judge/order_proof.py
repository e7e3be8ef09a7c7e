"""Whether the items come in a new random order in each epoch, and in new company."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from statistics import mean
from typing import Any

import numpy as np

from workshop.judge.epochs import epochs, forwards_in
from workshop.judge.ledger import Ledger

SAME_ORDER = 0.9
"""The largest rank correlation of the positions in two epochs. By chance its deviation is 1 / sqrt(items - 1)."""

ALIKE = 0.35
"""The largest mean of that correlation over all pairs of epochs, and"""
DEVIATIONS = 5
"""so many times the mean's own deviation, if that is more."""

SAME_PAIRS = 0.8
"""The largest share of pairs of items that are a pair in two epochs."""


@dataclass(frozen=True)
class _Likeness:
    """How like each other two epochs are; each is at most 1."""

    order: float
    """The rank correlation of the items' positions (Spearman's)."""
    company: float
    """The share of pairs of items in a batch that are in a batch in the other epoch, too."""
    succession: float
    """The share of items that come one after the other, and do so in the other epoch, too."""


def check_order(original: Ledger, candidate: Ledger) -> Iterator[str]:
    """Check that the items come in another order, and in other company, in each epoch, if they do in the original."""
    steps = len(epochs(original)[0])
    ours, theirs = (list(_likenesses(ledger, steps)) for ledger in (original, candidate))
    if not ours or not theirs:
        return
    items = sum(len(forward.targets or ()) for forward in forwards_in(epochs(original)[0]))
    alike = max(ALIKE, DEVIATIONS / np.sqrt((items - 1) * len(theirs)))
    if _most(ours, "order") < SAME_ORDER < _most(theirs, "order"):
        yield "the items come in the order of an epoch before: shuffle=True, or a sampler's set_epoch(), is missing"
    elif _most(ours, "company") < SAME_PAIRS < (share := _most(theirs, "company")):
        yield f"{share:.0%} of the items that share a batch shared one in an epoch before: shuffle items, not batches"
    elif _most(ours, "succession") < SAME_PAIRS < (share := _most(theirs, "succession")):
        yield f"{share:.0%} of the items that follow each other did so in an epoch before: shuffle all of them anew"
    elif _mean(ours) < alike < (correlation := _mean(theirs)):
        yield (
            f"the items come in much the same order in each epoch: the correlation of their positions is "
            f"{correlation:.2f}, and by chance it is 0: shuffle all of them, not a part at a time"
        )


def _most(likenesses: Iterable[_Likeness], what: str) -> float:
    return max(getattr(each, what) for each in likenesses)


def _mean(likenesses: Iterable[_Likeness]) -> float:
    return mean(each.order for each in likenesses)


_Batches = list[tuple[Any, ...]]
"""The targets of each batch of an epoch."""


def _likenesses(ledger: Ledger, steps: int) -> Iterator[_Likeness]:
    """Compare each epoch with those after it in the same run; a new run may well repeat an old one.

    Targets that come more than once in an epoch are left out: they do not tell which item it was.
    """
    by_run: dict[int, list[_Batches]] = {}
    for epoch in epochs(ledger, steps):
        batches = [forward.targets or () for forward in forwards_in(epoch)]
        count = Counter(chain(*batches))
        unique = [tuple(each for each in batch if count[each] == 1) for batch in batches]
        by_run.setdefault(epoch[0].run_index, []).append(unique)
    for of_run in by_run.values():
        for before, after in combinations(of_run, 2):
            order = _correlation(list(chain(*before)), list(chain(*after)))
            if order is not None:
                company = _share(*(chain.from_iterable(combinations(b, 2) for b in each) for each in (before, after)))
                yield _Likeness(order, company, _share(*(pairwise(chain(*each)) for each in (before, after))))


def _correlation(before: list[Any], after: list[Any]) -> float | None:
    """The correlation of the positions of the items that come in both orders; None if these are few."""
    place = {item: number for number, item in enumerate(before)}
    places = [place[item] for item in after if item in place]
    if len(places) < 5:
        return None
    return float(np.corrcoef(np.arange(len(places)), np.argsort(np.argsort(places)))[0, 1])


def _share(before: Iterable[tuple[Any, Any]], after: Iterable[tuple[Any, Any]]) -> float:
    """The share of pairs that were pairs before, in whatever order."""
    known, pairs = ({frozenset(pair) for pair in each} for each in (before, after))
    return len(pairs & known) / len(pairs) if pairs else 0.0
