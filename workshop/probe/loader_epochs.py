"""Epochs of DataLoaders whose batches come from elsewhere: they are as long as they would be."""

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader

NO_BATCH = object()
"""Stands for a batch where there is none."""

_LENGTH, _REPLACED = "_workshop_epoch_length", "_workshop_replaced"


class LoaderEpochs:
    """Knows how many batches an epoch of each DataLoader has."""

    def started(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Remember which DataLoader an iterator belongs to; not itself, which would keep its workers alive."""
        setattr(iterator, _LENGTH, loader.__dict__.setdefault(_LENGTH, [self.length(loader)]))
        setattr(iterator, _REPLACED, 0)  # it may be one that persists

    def ended(self, iterator: Any) -> None:
        """Remember the length of an epoch that has come to its end."""
        if (length := getattr(iterator, _LENGTH, None)) and not getattr(iterator, _REPLACED):
            length[0] = iterator._num_yielded

    def length(self, loader: DataLoader[Any]) -> int | None:
        """Return the number of batches of an epoch; None where it is not known: the epoch is then endless."""
        if (seen := loader.__dict__.get(_LENGTH)) is not None:
            return seen[0]
        if type(loader).__len__ is not DataLoader.__len__ or type(loader).__iter__ is not DataLoader.__iter__:
            return None  # what the subclass hands out itself may not be what the DataLoader below it does
        try:
            return len(loader)
        except Exception:  # an iterable dataset may have no length, or fail to say it
            return None

    def replaced(self, source: Any) -> None:
        """Count a batch that has taken the place of an iterator's."""
        if hasattr(source, _REPLACED):
            setattr(source, _REPLACED, getattr(source, _REPLACED) + 1)

    def check_length(self, source: Any) -> None:
        """Do nothing while an iterator has not come to the end of its epoch, with what took the place of its batches.

        Raises:
            StopIteration: it has.
        """
        if not hasattr(source, _REPLACED):
            return
        length, handed_out = getattr(source, _LENGTH), source._num_yielded
        if length[0] is not None and handed_out > length[0]:
            length[0] = None  # its sampler is longer than it says
        if length[0] is not None and handed_out + getattr(source, _REPLACED) >= length[0]:
            raise StopIteration


class Epoch:
    """An epoch that begins while something takes the place of a DataLoader; when nothing does, it goes on with this.

    Args:
        batch: returns the next batch, or `NO_BATCH` if nothing takes the DataLoader's place.
        begin: returns an iterator of the DataLoader itself.
        length: the number of batches after which the epoch ends; None for an endless one.
    """

    def __init__(self, batch: Callable[[], Any], begin: Callable[[], Iterator[Any]], length: int | None) -> None:
        self._batch, self._begin, self._left = batch, begin, length
        self._own: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._own is None:
            if self._left == 0:
                raise StopIteration
            if (batch := self._batch()) is not NO_BATCH:
                self._left = None if self._left is None else self._left - 1
                return batch
            self._own = self._begin()
        return next(self._own)
