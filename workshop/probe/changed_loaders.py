"""Other settings for the DataLoaders of a training, tried in the midst of it."""

import functools
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from time import monotonic  # the script may replace that of the module
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from workshop.probe.batch_store import BatchStore
from workshop.probe.loader_epochs import NO_BATCH, copied_sampler, loader_of, own_generator, without_iterator
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.loading_process import LoadingProcess, last_line
from workshop.probe.noted_settings import is_there, loader_number, loader_site, site_of
from workshop.probe.open_handles import own_handles, why_not_forked
from workshop.probe.random_states import random_states, set_random_states
from workshop.probe.whole_batches import take_at_once

TIMEOUT_S = 60.0
"""Seconds, at most, until a worker gives its next batch, unless the script has a timeout of its own."""

USED_UP = "it has no more batches: its dataset or its sampler can be gone through once"

IS_LOADED = object()
"""Stands for a batch that another process has loaded, and not handed over."""


class SharedHandleError(Exception):
    """The dataset holds something that forked processes must not share."""


class ChangedLoaders:
    """Lets other DataLoaders load what those of the training would, with other settings.

    Each DataLoader of the training gets one in its place that lasts, also where the script makes it or its workers
    anew. It has the same dataset and collate function, and a copy of the sampler. Its workers are kept, and go on to
    the next epoch at once: at the end of an epoch, they would have nothing to do, and the last batches would come
    faster than others. (Not so with an iterable dataset.) If it fails, or gives no batch for `TIMEOUT_S`, the script's
    own goes on.

    Nothing of a trial stays in the objects of the training: items are only drawn in other processes, which are thrown
    away. Without workers, one such process loads a batch whenever the training asks for one, which then gets a kept
    one: to hand it over would take time that a DataLoader without workers does not take.

    Args:
        store: keeps batches of the training.

    Attributes:
        given: the number of batches that others have loaded so far.
        started_s: the seconds from the start of one of them to its first batch, until somebody asks and sets it to 0.
        failure: why they load no more, if one of them failed.
        watched: watches how batches are loaded without workers: they go through it; until the next settings.
    """

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self.given = 0
        self.started_s = 0.0
        self.failure = ""
        self.watched: Callable[[Iterator[Any]], Iterator[Any]] = iter
        self._settings: LoaderSettings | None = None
        self._only: object = None
        self._streams: dict[tuple[int, object], Iterator[Any]] = {}
        self._iterated: WeakValueDictionary[int, DataLoader[Any]] = WeakValueDictionary()
        self._lock = threading.Lock()  # batches may be loaded in another thread

    def load_with(self, settings: LoaderSettings | None, loader: int = -1) -> None:
        """Load with these settings from now on, or with the script's own for None.

        Args:
            settings: those of all DataLoaders of the training.
            loader: the number of the one that is meant, with all that are made in its line; -1 for all.
        """
        self.failure, self.watched = "", iter
        if settings != self._settings:
            with self._lock:
                self._settings, self._only, self._streams = settings, site_of(loader), {}
        if settings and not settings.workers:
            self._store.keeping = True  # in case that none was kept before

    def started(self, loader: DataLoader[Any], iterator: Any) -> None:
        """Remember which DataLoaders are iterated, for as long as they are."""
        if (copied := loader_of(iterator)) is not None:
            self._iterated[loader_number(loader)] = copied

    def are_tried(self, source: Any) -> bool:
        """Return whether another DataLoader is to do what this one, or its iterator, would do now."""
        if self._settings is None or not torch.is_grad_enabled():
            return False
        if not self._settings.workers and not self._store.has_batch(source):
            return False
        loader = source if isinstance(source, DataLoader) else loader_of(source)
        return self._only is None or (loader is not None and loader_site(loader) == self._only)

    def batch(self, source: Any) -> Any:
        """Return a batch in place of a DataLoader's, or of its iterator's; `NO_BATCH` where nothing does."""
        loader = source if isinstance(source, DataLoader) else loader_of(source)
        with self._lock:
            if loader is None or self._settings is None:
                return NO_BATCH
            begin, streams = monotonic(), len(self._streams)
            try:
                batch = next(self._stream(loader, self._settings), NO_BATCH)
            except Exception as error:  # datasets fail in other processes in many ways
                batch, self.failure = NO_BATCH, last_line(error)
            if batch is NO_BATCH:
                self._settings, self.failure, self._streams = None, self.failure or USED_UP, {}
                return NO_BATCH
            self.given += 1
            self.started_s = monotonic() - begin if len(self._streams) > streams else self.started_s
            return self._store.batch(source) if batch is IS_LOADED else batch

    def _stream(self, loader: DataLoader[Any], settings: LoaderSettings) -> Iterator[Any]:
        """The batches of a DataLoader. One that is made where another was, which is gone, takes over its batches."""
        key = loader_number(loader), loader_site(loader)
        if key not in self._streams:
            same_place = [stream for stream in self._streams if stream[1] == key[1]]
            gone = [stream for stream in same_place if not is_there(stream[0]) and stream[0] not in self._iterated]
            self._streams[key] = self._streams.pop(gone[0]) if gone else _stream(loader, settings, self.watched)
        return self._streams[key]


def _again_and_again(begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Yield what one iterator has after the other, until one has nothing: a dataset may be used up."""
    is_empty = False
    while not is_empty:
        is_empty = True
        for item in begin():
            is_empty = False
            yield item


class _CopiedSampler:
    """The indices that the copy of a sampler draws, epoch after epoch, with random states of its own.

    Args:
        sampler: is copied, without the dataset.
        dataset: that of the DataLoader.
    """

    def __init__(self, sampler: Any, dataset: Any) -> None:
        self._sampler = copied_sampler(sampler, dataset)
        self._states = random_states()

    def __iter__(self) -> Iterator[Any]:
        drawn = _again_and_again(lambda: iter(self._sampler))
        while some := self._some_of(drawn):
            yield from some

    def _some_of(self, drawn: Iterator[Any]) -> list[Any]:
        states = random_states()
        set_random_states(self._states)
        try:
            return list(islice(drawn, 64))
        finally:
            self._states = random_states()
            set_random_states(states)


def _stream(
    loader: DataLoader[Any], settings: LoaderSettings, watched: Callable[[Iterator[Any]], Iterator[Any]]
) -> Iterator[Any]:
    """Yield the batches of a DataLoader with other settings, or `IS_LOADED` for each without workers.

    Raises:
        SharedHandleError: they must not be loaded in a forked process.
    """
    if why_not := why_not_forked(loader):
        raise SharedHandleError(why_not)
    changed = _changed(loader, settings)

    def batches() -> Iterator[Any]:
        return _again_and_again(lambda: DataLoader.__iter__(changed))

    def in_a_fork() -> Iterator[Any]:
        own_handles(loader.dataset)
        return watched(batches())

    return batches() if settings.workers else _in_place_of_loaded(LoadingProcess(in_a_fork))


def _in_place_of_loaded(process: LoadingProcess) -> Iterator[Any]:
    try:
        while process.load(TIMEOUT_S):
            yield IS_LOADED
    finally:
        process.end()


def start_method_of(loader: DataLoader[Any]) -> str:
    """Return how a DataLoader starts workers: "fork", "spawn" or "forkserver"."""
    default = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return LoaderSettings.of(loader).start_method or default


def _changed(loader: DataLoader[Any], settings: LoaderSettings) -> DataLoader[Any]:
    """Return a DataLoader of the same batches with other settings; one without workers is for a process of its own."""
    changed, has_workers = without_iterator(loader), settings.workers > 0
    replace(settings, persistent=True).give_to(changed)
    timeout_s = (loader.timeout or TIMEOUT_S) if has_workers else 0
    changed.__dict__.update(timeout=timeout_s, generator=own_generator())  # its own __setattr__ forbids to change some
    if settings.whole_batches:
        take_at_once(changed)
    if not has_workers:
        return changed
    if not isinstance(loader.dataset, IterableDataset):
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        changed.__dict__[name] = _CopiedSampler(getattr(loader, name), loader.dataset)
    initialize = functools.partial(
        _begin_worker, loader.worker_init_fn, settings.worker_threads, start_method_of(changed) == "fork"
    )
    changed.__dict__.update(worker_init_fn=initialize)
    return changed


def _begin_worker(initialize: Callable[[int], None] | None, threads: int, is_forked: bool, worker: int) -> None:
    info = get_worker_info()
    if is_forked and info is not None:
        own_handles(info.dataset)
    if initialize:
        initialize(worker)
    if threads:
        torch.set_num_threads(threads)
