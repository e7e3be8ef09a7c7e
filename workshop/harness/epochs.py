"""A ledger's steps, epoch by epoch, and what came in them."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.harness.ledger import SAME_PICTURE, Forward, Ledger, Step, distance, unit


def epochs(ledger: Ledger, steps: int | None = None) -> list[list[Step]]:
    """The steps of each epoch: so many, or as many as the script takes between one `iter(loader)` and the next.

    An epoch that was not ended is left out.
    """
    if steps is None and len(ledger.iters) < 2:
        steps = len(ledger.steps)
    if steps is None:
        borders = [*ledger.iters[1:], float("inf")]
        cut: list[list[Step]] = [[] for _ in borders]
        for step in ledger.steps:
            began = step.forwards[0].t if step.forwards else step.t
            cut[next(number for number, border in enumerate(borders) if began < border)].append(step)
        full = [epoch for epoch in cut if epoch]
        return full[:-1] if len(full) > 1 and len(full[-1]) < len(full[0]) else full
    by_life: dict[int, list[Step]] = {}
    for step in ledger.steps:
        by_life.setdefault(step.life, []).append(step)
    whole = [life[i : i + steps] for life in by_life.values() for i in range(0, len(life), steps)]
    return [epoch for epoch in whole if len(epoch) == steps] or [ledger.steps]


def forwards_in(steps: Sequence[Step]) -> list[Forward]:
    """Their forward passes, in order."""
    return [forward for step in steps for forward in step.forwards]


def targets_in(steps: Sequence[Step]) -> Counter[Any]:
    """How often each target came."""
    return Counter(target for forward in forwards_in(steps) for target in forward.targets or ())


def pictures_by_target(steps: Sequence[Step]) -> dict[Any, list[Any]]:
    """The signatures that came with each target."""
    found: dict[Any, list[Any]] = {}
    for forward in forwards_in(steps):
        for target, picture in zip(forward.targets or (), unit(forward.values), strict=False):
            found.setdefault(target, []).append(picture)
    return found


def share_repeated(earlier: Sequence[Step], later: Sequence[Step]) -> float:
    """The share of the later steps' pictures that look just as one with the same target did in the earlier steps."""
    before, after = pictures_by_target(earlier), pictures_by_target(later)
    same = total = 0
    for target, pictures in after.items():
        for picture in pictures:
            if picture.any():
                total += 1
                known = before.get(target, [])
                same += bool(known) and bool(np.any(distance(np.stack(known), picture) < SAME_PICTURE / 5))
    return same / total if total else 0.0


def largest_share_repeated(ledger: Ledger, steps: int) -> float:
    """The largest share of repeated pictures in two epochs of one life."""
    cut = epochs(ledger, steps)
    pairs = [*pairwise(cut), *((cut[0], later) for later in cut[2:])]
    return max((share_repeated(a, b) for a, b in pairs if a[0].life == b[0].life), default=0.0)
