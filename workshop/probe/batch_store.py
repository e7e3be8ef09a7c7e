"""Batches that are kept in memory and handed out again in place of a DataLoader's."""

import copy
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.internals import tree_map
from workshop.probe.loader_epochs import NO_BATCH
from workshop.probe.noted_settings import loader_site
from workshop.probe.settings import MAX_KEPT

_KEPT = "_workshop_kept_batches"


@dataclass
class KeptBatches:
    """The batches of one DataLoader, or of several that a line has made, one after the other."""

    loader: Any
    """A weak reference to the present one."""
    site: object
    batches: list[Any] = field(default_factory=list)
    replayed: int = 0


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
        self._all: list[KeptBatches] = []

    def started(self, loader: Any, iterator: Any) -> None:
        """Let an iterator know the batches that are kept of its DataLoader."""
        setattr(iterator, _KEPT, self._of(loader))

    def loaded(self, iterator: Any, batch: Any) -> None:
        """Keep a batch of the training, if there is room for it."""
        kept = getattr(iterator, _KEPT, None)
        if kept is not None and len(kept.batches) < MAX_KEPT:
            kept.batches.append(_copy(batch))
            self.kept += 1

    def replays(self, source: Any) -> bool:
        """Return whether batches are replayed in place of a DataLoader's, or of its iterator's."""
        return self.replaying and self.has_batch(source)

    def has_batch(self, source: Any) -> bool:
        """Return whether a batch of a DataLoader, or of its iterator's, is kept."""
        return bool((kept := self._of(source)) and kept.batches)

    def batch(self, source: Any) -> Any:
        """Return the next of the kept batches in place of a DataLoader's, or of its iterator's; `NO_BATCH` for none."""
        if not ((kept := self._of(source)) and kept.batches):
            return NO_BATCH
        batch = kept.batches[kept.replayed % len(kept.batches)]
        kept.replayed += 1
        self.replayed += 1
        return _copy(batch)

    def _of(self, source: Any) -> KeptBatches | None:
        """The batches kept of a DataLoader, given it or its iterator.

        A DataLoader takes over the batches of a deleted one that was made at the same place.
        """
        if not isinstance(source, DataLoader):
            return getattr(source, _KEPT, None)
        site = loader_site(source)
        of_this = (each for each in self._all if each.loader() is source)
        gone = (each for each in self._all if each.site == site and each.loader() is None)
        kept = next(of_this, None) or next(gone, None)
        if kept is None:
            kept = KeptBatches(ref(source), site)
            self._all.append(kept)
        kept.loader = ref(source)
        return kept


def _copy(batch: Any) -> Any:
    """Copy a batch: scripts change what they are given, and there is little shared memory to hold on to."""

    def copy_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf)
        if torch.cuda.is_initialized() and leaf.is_pinned():
            return leaf  # a clone would not be pinned, and its way to the device longer
        return leaf.clone()

    return tree_map(copy_leaf, batch)
