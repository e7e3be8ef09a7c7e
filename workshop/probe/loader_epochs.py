"""Epochs of DataLoaders whose batches come from elsewhere: they are as long as they would be."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from workshop.probe.internals import batches_yielded, drop_iterator

NO_BATCH = object()
"""Stands for a batch where there is none."""

_LOADER, _LENGTH, _REPLACED = "_workshop_loader", "_workshop_epoch_length", "_workshop_replaced"


class LoaderEpochs:
    """Knows how many batches an epoch of each DataLoader has, and how many have come in place of an iterator's."""

    def started(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Remember which DataLoader an iterator belongs to."""
        loader.__dict__.setdefault(_LENGTH, [])
        setattr(iterator, _LOADER, without_iterator(loader))
        setattr(iterator, _REPLACED, 0)  # it may be one that persists

    def ended(self, iterator: Any) -> None:
        """Remember the length of an epoch that has come to its end."""
        if (loader := loader_of(iterator)) is not None and not getattr(iterator, _REPLACED):
            loader.__dict__[_LENGTH][:] = [batches_yielded(iterator)]

    def length(self, loader: DataLoader[Any]) -> int | None:
        """Return the number of batches of an epoch; None where it is not known: the epoch is then endless."""
        if seen := loader.__dict__.get(_LENGTH):
            return seen[0]
        kind = type(loader)
        if kind.__len__ is not DataLoader.__len__ or kind.__iter__ is not DataLoader.__iter__:
            return None  # what the subclass hands out itself may not be what the DataLoader below it does
        try:
            return len(without_iterator(loader))  # torch remembers who has asked an iterable dataset
        except Exception:  # an iterable dataset may have no length, or fail to say it
            return None

    def replaced(self, source: Any) -> None:
        """Count a batch that has taken the place of an iterator's."""
        if hasattr(source, _REPLACED):
            setattr(source, _REPLACED, getattr(source, _REPLACED) + 1)

    def is_replaced(self, source: Any) -> bool:
        """Return whether batches have taken the place of an iterator's in this epoch."""
        return getattr(source, _REPLACED, 0) > 0

    def is_over(self, source: Any) -> bool:
        """Return whether an iterator has come to the end of its epoch, with what took the place of its batches."""
        if not hasattr(source, _REPLACED) or (length := self.length(getattr(source, _LOADER))) is None:
            return False
        if batches_yielded(source) > length:  # its sampler is longer than it says
            return False
        return bool(batches_yielded(source) + getattr(source, _REPLACED) >= length)


class Epoch:
    """An epoch that begins while something takes the place of a DataLoader; when nothing does, it goes on with this.

    Args:
        batch: returns the next batch, or `NO_BATCH` if nothing takes the DataLoader's place.
        begin: returns an iterator of the DataLoader itself.
        length: the number of batches after which the epoch ends; None for an endless one.
    """

    def __init__(self, batch: Callable[[], Any], begin: Callable[[], Iterator[Any]], length: int | None) -> None:
        self._batch, self._begin, self._length, self._left = batch, begin, length, length
        self._iterator: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("this DataLoader has no length")
        return self._length

    def __next__(self) -> Any:
        if self._left == 0:
            raise StopIteration
        batch = self._batch() if self._iterator is None else NO_BATCH
        if batch is NO_BATCH:
            if self._iterator is None:  # it has a length, so that whether it is true may be no question
                self._iterator = self._begin()
            batch = next(self._iterator)
        self._left = None if self._left is None else self._left - 1
        return batch


def loader_of(iterator: Any) -> DataLoader[Any] | None:
    """Return a copy of the DataLoader that an iterator belongs to; None if nobody has noted it."""
    return getattr(iterator, _LOADER, None)


def copied_sampler(sampler: Any, dataset: Any) -> Any:
    """Return a copy of a sampler, which may hold the dataset, but not of that."""
    return copy.deepcopy(sampler, {id(dataset): dataset})


def own_generator() -> torch.Generator:
    """Return a generator for a DataLoader that must draw nothing from those of the script."""
    return torch.Generator().manual_seed(random.SystemRandom().randrange(2**60))


def without_iterator(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a copy that keeps no workers alive."""
    copied = copy.copy(loader)
    drop_iterator(copied)
    return copied
