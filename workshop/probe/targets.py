"""The targets of a batch, as the judge tells its items apart."""

from typing import Any

import torch

MAX_VALUES_OF_ITEM = 256
"""The number of targets of an item that are looked at, if it has many."""

MAX_TARGETS = 4096
"""The number of values of a target tensor that are noted."""


def values_of_items(targets: torch.Tensor, items: int) -> tuple[Any, ...]:
    """Return one value for each item, where the first dimension of the targets is that of the items; else all values.

    For several targets of an item, as those of the words of a sentence or the pixels of a picture, it is a sum of some
    of them, weighted so that others hardly come to the same sum.
    """
    if targets.ndim > 1 and len(targets) == items:
        rows = targets.flatten(1)
        rows = rows[:, :: max(1, rows.shape[1] // MAX_VALUES_OF_ITEM)].cpu().double()
        sums = (rows * torch.arange(1.0, rows.shape[1] + 1, dtype=torch.float64).sqrt()).sum(1)
        return tuple(float(f"{value:.6g}") for value in sums[:MAX_TARGETS].tolist())
    return tuple(targets.flatten()[:MAX_TARGETS].tolist())
