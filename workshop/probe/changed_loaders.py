"""Other settings for the DataLoaders of a training, tried in the midst of it."""

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.utils.data import DataLoader

from workshop.probe.loader_epochs import NO_BATCH, loader_of, without_iterator
from workshop.probe.noted_settings import is_there, loader_number, loader_site
from workshop.probe.settings import PREFETCHED


class ChangedLoaders:
    """Lets other DataLoaders load what those of the training would, with another number of workers.

    Each DataLoader of the training gets one in its place that lasts, also where the script makes it or its workers
    anew. It has the same dataset, sampler and collate function; its workers are kept, and compute with one thread each.
    If it fails, the script's own goes on.

    Attributes:
        given: the number of batches that others have loaded so far.
        failure: why they load no more, if one of them failed.
    """

    def __init__(self) -> None:
        self.given = 0
        self.failure = ""
        self._workers: int | None = None
        self._streams: dict[tuple[int, object], Iterator[Any]] = {}
        self._iterated: WeakValueDictionary[int, DataLoader[Any]] = WeakValueDictionary()
        self._lock = threading.Lock()  # batches may be loaded in another thread

    def load_with(self, workers: int | None) -> None:
        """Load with this many workers from now on; None: with the script's own number."""
        self.failure = ""
        if workers != self._workers:
            with self._lock:
                self._workers, self._streams = workers, {}

    def started(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Remember which DataLoaders are iterated, for as long as they are."""
        if (copied := loader_of(iterator)) is not None:
            self._iterated[loader_number(loader)] = copied

    def are_tried(self) -> bool:
        """Return whether the present loading is to be done by other DataLoaders."""
        return self._workers is not None and torch.is_grad_enabled()

    def batch(self, source: Any) -> Any:
        """Return a batch in place of a DataLoader's, or of its iterator's; `NO_BATCH` where nothing does."""
        loader = source if isinstance(source, DataLoader) else loader_of(source)
        with self._lock:
            if loader is None or self._workers is None:
                return NO_BATCH
            try:
                batch = next(self._stream(loader, self._workers), NO_BATCH)
            except Exception as error:  # datasets fail in other processes in many ways
                batch, self.failure = NO_BATCH, (str(error).strip().splitlines() or [type(error).__name__])[-1]
            if batch is NO_BATCH:
                self._workers = None
            else:
                self.given += 1
            return batch

    def _stream(self, loader: DataLoader[Any], workers: int) -> Iterator[Any]:
        """The batches of a DataLoader. One that is made where another was, which is gone, takes over its batches."""
        key = loader_number(loader), loader_site(loader)
        if key not in self._streams:
            same_place = [each for each in self._streams if each[1] == key[1]]
            gone = [each for each in same_place if not is_there(each[0]) and each[0] not in self._iterated]
            self._streams[key] = self._streams.pop(gone[0]) if gone else _endless(_changed(loader, workers))
        return self._streams[key]


def _endless(loader: DataLoader[Any]) -> Iterator[Any]:
    loaded = True
    while loaded:  # a dataset may be used up
        loaded = False
        for batch in DataLoader.__iter__(loader):
            loaded = True
            yield batch


def _changed(loader: DataLoader[Any], workers: int) -> DataLoader[Any]:
    """Return a DataLoader of the same batches with another number of workers."""
    changed = without_iterator(loader)
    changed.__dict__.update(  # its own __setattr__ forbids to change it
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=PREFETCHED if workers else None,
        timeout=loader.timeout if workers else 0,
        worker_init_fn=functools.partial(_with_one_thread, loader.worker_init_fn),
    )
    return changed


def _with_one_thread(initialize: Callable[[int], None] | None, worker: int) -> None:
    if initialize:
        initialize(worker)
    torch.set_num_threads(1)
