"""Counts the Python objects that a dataset holds: forked workers copy the memory of each that they touch."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch.utils.data import DataLoader

from workshop.probe.changed_loaders import start_method_of
from workshop.probe.event_file import EventFile
from workshop.probe.memory.dataset_attributes import MIN_OBJECTS, attributes_of, entries_of, length_of, owner_of
from workshop.probe.memory.holder_names import classes_of
from workshop.probe.memory.memory_notes import AttributeObjects
from workshop.probe.noted_settings import loader_number, loader_site
from workshop.probe.observations import WireFrame

SAMPLE, FURTHER = 200, 20
"""So many entries of a container are looked at, and so many further in: the script waits for it."""

MIN_ARRAYS = 1 << 20
MAX_DEPTH = 3


NUMBER_BYTES, KEY_BYTES = 8, 50
"""What a number takes in an array, and about what a key of a dict does."""


class ObjectCount(NamedTuple):
    """How many Python objects there are in something, estimated from a sample."""

    objects: int
    bytes: int
    """An array counts with its header alone: what it contains is no Python object, and is not touched by a reader."""
    content_bytes: int
    """What their numbers and texts would take in an array."""


def count_objects(value: Any, depth: int = 0) -> ObjectCount:
    """Count the Python objects in something, with their bytes."""
    entries = entries_of(value, FURTHER if depth else SAMPLE) if depth < MAX_DEPTH else None
    if not entries:
        return ObjectCount(1, _own_bytes(value), _content_bytes(value))
    different = {id(each): each for each in entries}
    length = length_of(value)
    many = _how_many(len(entries), len(different), length)
    counted = [count_objects(each, depth + 1) for each in different.values()]
    objects, size, content = (sum(each) / len(counted) for each in zip(*counted, strict=True))
    keys = length * KEY_BYTES if isinstance(value, dict) and depth == 0 else 0  # those of records are the same ones
    return ObjectCount(
        1 + round(objects * many), round(_own_bytes(value) + size * many) + keys, round(content * length) + keys
    )


def _how_many(looked_at: int, different: int, length: int) -> float:
    """Estimate how many different objects a container has, by how often a sample of it has the same one twice.

    Of n that are drawn of N, about n * n / (2 * N) pairs are the same.
    """
    if different == looked_at:
        return length
    if looked_at >= length:
        return different
    return max(different, min(length, looked_at**2 / (2 * (looked_at - different))))


def _own_bytes(value: Any) -> int:
    """What an object takes itself; of an array or a tensor, its header."""
    size = 0
    with suppress(Exception):  # a sparse tensor has none
        size = value.nbytes
    return max(sys.getsizeof(value) - (size if isinstance(size, int) else 0), 0)


def _content_bytes(value: Any) -> int:
    return len(value) if isinstance(value, (str, bytes)) else NUMBER_BYTES * isinstance(value, (int, float))


def array_bytes(value: Any, depth: int = 0) -> int:
    """Return the bytes of the arrays in something, estimated from a sample.

    A worker that is not forked gets a copy of each array. Tensors do not count: they are moved to shared memory.
    """
    if isinstance(value, torch.Tensor):
        return 0
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    entries = entries_of(value, SAMPLE) if depth < MAX_DEPTH else None
    if not entries:
        return 0
    return round(sum(array_bytes(each, depth + 1) for each in entries) / len(entries) * length_of(value))


def describe_container(value: Any) -> str:
    """Return the type of a container and of its first entry, such as "list of str"."""
    entries = entries_of(value, 1)
    kind = type(value).__name__
    return f"{kind} of {type(entries[0]).__name__}" if entries else kind


@dataclass(frozen=True)
class CountedDataset:
    """A dataset that workers load from, and its attributes that have many Python objects."""

    dataset: ref[Any]
    """Weak: the script decides how long it is there."""
    loader: int
    """The number of the first DataLoader that has started workers for it."""
    addresses: dict[str, list[int]]
    """Where some objects of each such attribute are in memory."""


class AttributeCounts:
    """Notes the attributes of datasets that have many Python objects, once for each dataset with workers.

    Attributes:
        starting: the dataset whose workers were started last; None before the first.
    """

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._counted: list[CountedDataset] = []
        self.starting: CountedDataset | None = None

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
            if count.objects >= MIN_OBJECTS or arrays >= MIN_ARRAYS:
                found.addresses[name] = [id(each) for each in entries_of(value, SAMPLE) or ()]
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
