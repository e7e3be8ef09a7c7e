"""Counts the Python objects that a dataset holds, and measures what a worker that is forked comes to own of them."""

import gc
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.changed_loaders import start_method_of
from workshop.probe.event_file import EventFile
from workshop.probe.listener import Listener
from workshop.probe.memory.array_content import MIN_ARRAY
from workshop.probe.memory.memory_notes import MIN_OBJECTS, AttributeObjects, TouchedAttribute
from workshop.probe.memory.object_sizes import (
    COUNTED,
    MAX_COUNTED,
    array_bytes,
    count_objects,
    describe_container,
    entries_of,
)
from workshop.probe.memory.process_memory import private_bytes
from workshop.probe.memory.variables import attributes_of, classes_of, owner_of
from workshop.probe.messages import SetStage, TouchDatasets
from workshop.probe.noted_settings import loader_number, loader_site
from workshop.probe.observations import WireFrame
from workshop.probe.trials.copies import ensure_free

PATIENCE_S = 20.0
"""Seconds, at most, that a forked process may take: the script waits for it."""


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
        site = loader_site(loader)
        stack: tuple[WireFrame, ...] = site if isinstance(site, tuple) else ()
        found = CountedDataset(ref(loader.dataset), loader_number(loader), {})
        for name, value in attributes_of(loader.dataset):
            count = count_objects(value)
            arrays = array_bytes(value) if start_method_of(loader) != "fork" else 0
            if count.objects >= MIN_OBJECTS or arrays >= MIN_ARRAY:
                found.addresses[name] = [id(each) for each in entries_of(value, COUNTED) or ()]
                self._events.write(
                    AttributeObjects,
                    attribute=name,
                    container=describe_container(value),
                    objects=count.objects,
                    bytes=count.bytes + arrays,
                    content_bytes=count.content_bytes + arrays,
                    stack=stack,
                    loader=found.loader,
                    workers=loader.num_workers,
                    start_method=start_method_of(loader),
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
    try:
        ensure_free(count_objects(value).bytes, torch.device("cpu"))
        touched, untouched = _in_fork(value), _in_fork(None)
        events.write(TouchedAttribute, attribute=name, loader=loader, private_bytes=touched, untouched_bytes=untouched)
    except (OSError, ValueError, MemoryError) as error:
        events.write(
            TouchedAttribute,
            attribute=name,
            loader=loader,
            private_bytes=0,
            untouched_bytes=0,
            error=f"{type(error).__name__}: {error}",
        )


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
    if depth > MAX_COUNTED:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            key  # noqa: B018
            _touch(each, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            _touch(each, depth + 1)
    elif getattr(getattr(value, "dtype", None), "hasobject", False) and hasattr(value, "flat"):
        for each in value.flat:
            _touch(each, depth + 1)
