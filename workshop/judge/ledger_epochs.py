"""The steps of a ledger, epoch by epoch, and what came in them."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.judge.ledger import Ledger
from workshop.judge.signatures import SAME_PICTURE, distance, unit, values_of
from workshop.probe.events import ForwardPass, StepTaken


def epochs(ledger: Ledger, steps: int | None = None) -> list[list[StepTaken]]:
    """Return the steps of each epoch; an epoch that was not ended is left out.

    An epoch has so many `steps`, or as many as it takes from one `iter(loader)` to the next.
    """
    if steps is None and len(ledger.loader_starts) < 2:
        steps = len(ledger.steps)
    if steps is None:
        by_start: dict[int, list[StepTaken]] = {}
        for step in ledger.steps:
            began = step.forwards[0].t if step.forwards else step.t
            by_start.setdefault(bisect(ledger.loader_starts[1:], began), []).append(step)
        full = [by_start[start] for start in sorted(by_start)]
        return full[:-1] if len(full) > 1 and len(full[-1]) < len(full[0]) else full
    by_run: dict[int, list[StepTaken]] = {}
    for step in ledger.steps:
        by_run.setdefault(step.run_index, []).append(step)
    whole = [run[i : i + steps] for run in by_run.values() for i in range(0, len(run), steps)]
    return [epoch for epoch in whole if len(epoch) == steps] or [ledger.steps]


def forwards_in(steps: Sequence[StepTaken]) -> list[ForwardPass]:
    """Return the forward passes of some steps, in order."""
    return [forward for step in steps for forward in step.forwards]


def targets_in(steps: Sequence[StepTaken]) -> Counter[Any]:
    """Count how often each target came."""
    return Counter(target for forward in forwards_in(steps) for target in forward.targets or ())


def pictures_by_target(steps: Sequence[StepTaken]) -> dict[Any, list[Any]]:
    """Return the signatures that came with each target."""
    found: dict[Any, list[Any]] = {}
    for forward in forwards_in(steps):
        for target, picture in zip(forward.targets or (), unit(values_of(forward.pictures)), strict=False):
            found.setdefault(target, []).append(picture)
    return found


def share_repeated(earlier: Sequence[StepTaken], later: Sequence[StepTaken]) -> float:
    """Return the share of the later steps' pictures that look just as one with the same target did in earlier steps."""
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
    """Return the largest share of repeated pictures in two epochs of one run."""
    cut = epochs(ledger, steps)
    pairs = [*pairwise(cut), *((cut[0], later) for later in cut[2:])]
    return max((share_repeated(a, b) for a, b in pairs if a[0].run_index == b[0].run_index), default=0.0)
