"""Batches that are kept in memory and handed out again in the place of a DataLoader's."""

import copy
import itertools
from typing import Any

import torch
from torch.utils._pytree import tree_map

MAX_KEPT = 8
"""The number of batches that are kept of one DataLoader."""

_KEPT, _REPLAYED = "_workshop_kept_batches", "_workshop_replayed_batches"


class BatchStore:
    """Keeps batches while `keeping`, and replays them, again and again, while `replaying`.

    Attributes:
        keeping: whether batches of the training are kept.
        replaying: whether kept batches take the place of the DataLoader's.
        kept: the number of batches kept so far.
        replayed: the number of batches handed out from memory so far.
    """

    def __init__(self) -> None:
        self.keeping = self.replaying = False
        self.kept = self.replayed = 0

    def started(self, loader: Any, iterator: Any) -> None:
        """Remember which DataLoader an iterator belongs to."""
        setattr(iterator, _KEPT, loader.__dict__.setdefault(_KEPT, []))

    def loaded(self, iterator: Any, batch: Any) -> None:
        """Keep a batch that was loaded with gradients switched on, if it is time for it."""
        kept = getattr(iterator, _KEPT, None)
        if self.keeping and kept is not None and len(kept) < MAX_KEPT and torch.is_grad_enabled():
            kept.append(_copy(batch))
            self.kept += 1

    def replays(self, source: Any) -> bool:
        """Return whether batches are replayed in the place of a DataLoader's, or of its iterator's."""
        return self.replaying and bool(getattr(source, _KEPT, None))

    def batch(self, source: Any) -> Any:
        """Return the next of the kept batches in the place of a DataLoader's, or of its iterator's."""
        if not hasattr(source, _REPLAYED):
            setattr(source, _REPLAYED, itertools.cycle(getattr(source, _KEPT)))
        self.replayed += 1
        return _copy(next(getattr(source, _REPLAYED)))


def _copy(batch: Any) -> Any:
    """Copy a batch: scripts change what they are given, and there is little shared memory to hold on to."""

    def copy_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf)
        if torch.cuda.is_initialized() and leaf.is_pinned():
            return leaf  # a clone would not be pinned, and its way to the device longer
        return leaf.clone()

    return tree_map(copy_leaf, batch)
