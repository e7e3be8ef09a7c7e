"""Notes what datasets have: attributes of many Python objects, which forked workers come to own, and float64."""

import gc
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader, default_collate, default_convert

from workshop.probe.changed_loaders import start_method_of
from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener
from workshop.probe.loader_hooks import LoaderHooks
from workshop.probe.memory.memory_notes import MIN_HELD, MIN_OBJECTS, AttributeObjects, TouchedAttribute, WideItems
from workshop.probe.memory.object_sizes import SAMPLES, count_objects, describe_container, entries_of
from workshop.probe.memory.process_memory import private_bytes
from workshop.probe.memory.variables import attributes_of, classes_of, innermost_dataset, owner_of
from workshop.probe.messages import SetStage, TouchDatasets
from workshop.probe.noted_settings import loader_number, loader_site
from workshop.probe.observations import WireFrame
from workshop.probe.trials.copies import ensure_free
from workshop.probe.user_code import is_user_code

PATIENCE_S = 20.0
"""Seconds, at most, that a forked process may take: the script waits for it."""

MAX_DEPTH, MAX_PARTS, MAX_BATCHES = 3, 32, 10
"""How deep a batch is looked into, parts of each part, and batches that are looked at, at most."""

Way = tuple[str, ...]
"""The keys, or the places, that lead to a part of a batch."""


@dataclass(frozen=True)
class CountedDataset:
    """A dataset that workers load from, and its attributes that have many Python objects."""

    dataset: ref[Any]
    """Weak: the script decides how long it is there."""
    loader: int
    """The number of the first DataLoader that has started workers for it."""
    addresses: dict[str, list[int]]
    """Where some objects of each such attribute are in memory."""


class AttributeCounts(Listener):
    """Notes the attributes of datasets that have many Python objects, once for each dataset with workers.

    Attributes:
        starting: the dataset whose workers were started last; None before the first.
    """

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._counted: list[CountedDataset] = []
        self.starting: CountedDataset | None = None

    def goes_on_in_fork(self) -> bool:
        """Go on with the datasets that are known."""
        return True

    def gives_up_alone(self, error: Exception) -> bool:
        """Let the steps be recorded without what datasets hold."""
        self._events.lose(error)
        return True

    def on_stage(self, stage: SetStage) -> None:
        """Go through what was noted, if a stage asks for it."""
        if isinstance(stage, TouchDatasets):
            for loader, name, value in self.present():
                note_touched(loader, name, value, self._events)

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Look at the dataset of a DataLoader that is about to start workers."""
        if loader.num_workers and type(loader.dataset).__weakrefoffset__:
            self._counted = [each for each in self._counted if each.dataset() is not None]
            known = (each for each in self._counted if each.dataset() is loader.dataset)
            self.starting = next(known, None) or self._count(loader)

    def _count(self, loader: DataLoader[Any]) -> CountedDataset:
        site, method = loader_site(loader), start_method_of(loader)
        found = CountedDataset(ref(loader.dataset), loader_number(loader), {})
        for name, value in attributes_of(loader.dataset):
            if (entries := entries_of(value, SAMPLES[0])) is None and getattr(value, "nbytes", None) is None:
                continue
            count = count_objects(value)
            arrays = count.array_bytes if method != "fork" else 0
            if count.objects >= MIN_OBJECTS or arrays >= MIN_HELD:
                found.addresses[name] = [id(each) for each in entries or ()]
                self._events.write(
                    AttributeObjects,
                    attribute=name,
                    container=describe_container(value),
                    objects=count.objects,
                    bytes=count.bytes + arrays,
                    content_bytes=count.content_bytes + arrays,
                    stack=site if isinstance(site, tuple) else (),
                    loader=found.loader,
                    workers=loader.num_workers,
                    start_method=method,
                    classes=classes_of(owner_of(loader.dataset, name)),
                )
        self._counted.append(found)
        return found

    def present(self) -> Iterator[tuple[int, str, Any]]:
        """Yield each attribute that was noted and is still there, with the number of its DataLoader and its name."""
        for each in self._counted:
            for name, value in attributes_of(each.dataset()):
                if name in each.addresses:
                    yield each.loader, name, value


def note_touched(loader: int, name: str, value: Any, events: EventFile) -> None:
    """Go through an attribute in a forked process, and note how much more memory is private to it then."""
    with suppress(OSError, ValueError, MemoryError):  # then it was not tried
        ensure_free(count_objects(value).bytes, torch.device("cpu"))
        sizes = {"private_bytes": _in_fork(value), "untouched_bytes": _in_fork(None)}
        events.write(TouchedAttribute, attribute=name, loader=loader, **sizes)


def _in_fork(value: Any) -> int:
    """The bytes that become private to a forked process as it touches each object in something.

    Raises:
        OSError: it cannot be forked.
        ValueError: it has failed.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            gc.disable()
            before = private_bytes()
            _touch(value)
            os.write(writes, str(private_bytes() - before).encode())
        finally:
            os._exit(0)  # nothing that the script has registered for its end
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        if not poll.poll(1000 * PATIENCE_S):
            os.kill(child, signal.SIGKILL)  # it then says nothing, which is no number
        said = pipe.read()
    os.waitpid(child, 0)
    return int(said)


def _touch(value: Any, depth: int = 0) -> None:
    """Take and drop a reference to each object, as any use of it does."""
    parts: Any = value if isinstance(value, (list, tuple, set, frozenset)) else ()
    if isinstance(value, dict):
        parts = chain(value, value.values())
    elif getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
        parts = value.flat
    for each in parts if depth < len(SAMPLES) else ():
        _touch(each, depth + 1)


class WideBatches(Listener):
    """Notes which part of a batch is float64, and the code that makes the items of its dataset.

    It looks at some batches, until one has such a part; of loaders that put items together as they are.
    """

    def __init__(self, events: EventFile, loading: LoaderHooks) -> None:
        self._events, self._loading = events, loading
        self._datasets: dict[int, ref[Any]] = {}
        self._left = MAX_BATCHES

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """Get to know the dataset of a DataLoader by its number."""
        if type(loader.dataset).__weakrefoffset__ and loader.collate_fn in (default_collate, default_convert):
            self._datasets[loader_number(loader)] = ref(loader.dataset)

    def on_batch(self, batch: Any) -> None:
        """Note the part of a batch that is float64, and where the items of its DataLoader are made."""
        known = self._datasets.get(self._loading.asked)
        dataset = known() if known and self._left > 0 else None
        if dataset is None:
            return
        self._left -= 1
        if (way := way_to_wide(batch)) is not None and (frame := _made_in(dataset)):
            self._left = 0
            self._events.write(WideItems, frame=frame, way=way)


def way_to_wide(value: Any, way: Way = ()) -> Way | None:
    """Return the way to the first tensor of float64 in a batch; None without one. No code of the user's runs for it."""
    if type(value) is torch.Tensor:
        return way if value.dtype == torch.float64 else None
    if len(way) == MAX_DEPTH or type(value) not in (dict, list, tuple):
        return None
    parts = value.items() if type(value) is dict else enumerate(value)
    found = (way_to_wide(part, (*way, str(key))) for key, part in islice(parts, MAX_PARTS))
    return next((each for each in found if each is not None), None)


def _made_in(dataset: Any) -> WireFrame | None:
    """The user's function that makes an item, of the innermost dataset."""
    dataset = innermost_dataset(dataset)
    for name in ("__getitem__", "__iter__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None and is_user_code(code.co_filename):
            return code.co_name, code.co_filename, code.co_firstlineno
    return None
