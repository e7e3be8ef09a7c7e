"""Other settings for the DataLoaders of a training, tried in the midst of it."""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from workshop.probe.noted_settings import loader_site

PREFETCHED = 2
"""The number of batches that a worker loads ahead, where the script says nothing: torch's default."""

_LOADER, _IN_PLACE = "_workshop_loader", "_workshop_in_place"


class ChangedLoaders:
    """Lets other DataLoaders load what those of the training would, with another number of workers.

    Each DataLoader of the training gets one in its place that lasts, also where the script makes it or its workers
    anew. It has the same dataset, sampler and collate function; its workers are kept, and compute with one thread each.
    """

    def __init__(self) -> None:
        self._workers: int | None = None
        self._streams: dict[object, Iterator[Any]] = {}

    def load_with(self, workers: int | None) -> None:
        """Load with so many workers from now on; None: as the script does."""
        if workers != self._workers:
            for stream in self._streams.values():
                stream.close()  # type: ignore[attr-defined]
            self._workers, self._streams = workers, {}

    def started(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Remember which DataLoader an iterator belongs to."""
        setattr(iterator, _LOADER, loader)

    def in_place_of(self, source: Any) -> Iterator[Any] | None:
        """Return what takes the place of a DataLoader, or of an iterator of one; None where nothing does."""
        if self._workers is None or not torch.is_grad_enabled():
            return None
        if isinstance(source, DataLoader):
            return self._batches(source, _length(source))
        if not hasattr(source, _LOADER):
            return None
        began, batches = getattr(source, _IN_PLACE, (None, None))
        if began != self._workers:
            length = _length(getattr(source, _LOADER))
            left = None if length is None else max(length - source._num_yielded, 0)
            batches = self._batches(getattr(source, _LOADER), left)
            setattr(source, _IN_PLACE, (self._workers, batches))
        return batches

    def _batches(self, loader: DataLoader[Any], length: int | None) -> Iterator[Any]:
        """As many batches as the script expects, unless the trial ends before."""
        workers, site = self._workers, loader_site(loader)
        for _ in itertools.count() if length is None else range(length):
            if self._workers != workers or workers is None:
                return
            if site not in self._streams:
                self._streams[site] = _endless(_changed(loader, workers))
            yield next(self._streams[site])


def _endless(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # an iterable dataset may have none
        return None


def _changed(loader: DataLoader[Any], workers: int) -> DataLoader[Any]:
    """Return a DataLoader of the same batches with another number of workers."""
    changed = copy.copy(loader)
    changed.__dict__.update(  # its own __setattr__ forbids to change it
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=(loader.prefetch_factor or PREFETCHED) if workers else None,
        timeout=loader.timeout if workers else 0,
        worker_init_fn=functools.partial(_with_one_thread, loader.worker_init_fn),
        _iterator=None,
    )
    return changed


def _with_one_thread(initialize: Callable[[int], None] | None, worker: int) -> None:
    if initialize:
        initialize(worker)
    torch.set_num_threads(1)
