"""How many Python objects there are in something, and how many bytes, estimated from some of it."""

import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from types import FunctionType
from typing import Any, NamedTuple

import torch

SAMPLES = (200, 10, 4, 2)
"""Entries of a container that are looked at, at most, and of the containers in it, and in those: the script waits."""

KEY_BYTES = 50
"""Bytes of a key of a dict, about."""

ENTRY_TYPES = ("_lru_list_elem", "_lru_cache_wrapper")


class ObjectCount(NamedTuple):
    """How many Python objects there are in something, and their bytes, estimated from a sample."""

    objects: int
    bytes: int
    """An array counts with its header alone: what it contains is no Python object, and is not touched by a reader."""
    content_bytes: int
    """What their numbers and texts would take in an array."""
    array_bytes: int
    """What arrays contain: a worker that is not forked gets a copy of each."""
    tensor_bytes: int
    """What tensors on the CPU contain: they are moved to shared memory."""

    @property
    def size(self) -> int:
        """The bytes of all together."""
        return self.bytes + self.array_bytes + self.tensor_bytes


def count_objects(value: Any) -> ObjectCount:
    """Count the Python objects in something, with their bytes.

    What several entries lead to counts once, such as a model that each of them knows.
    """
    return ObjectCount(*map(round, _counted(value, 0, set())))


def _counted(value: Any, depth: int, seen: set[int]) -> list[float]:
    """The figures of an `ObjectCount`."""
    own = _own(value)
    if id(value) in seen:
        return [0, 0, own[2], 0, 0]
    seen.add(id(value))
    most = SAMPLES[depth] if depth < len(SAMPLES) else 0
    entries = entries_of(value, most) if most else []
    parts = [*islice(_parts_of(value), most)] if entries is None else entries
    if not parts:
        return own
    length = len(parts) if entries is None else length_of(value)
    different = {id(each): each for each in parts}.values()
    counted = [_counted(each, depth + 1, seen) for each in different]
    contents = sum(each[2] for each in counted) / len(counted) * length
    many = _how_many(len(parts), len(different), length)
    if many > len(different) > 1:  # what all of them know is of the first
        counted = counted[1:]
    inside = [sum(each) / len(counted) * many for each in zip(*counted, strict=True)]
    keys = length * KEY_BYTES if isinstance(value, dict) and depth == 0 else 0  # those of records are the same ones
    return [own[0] + inside[0], own[1] + inside[1] + keys, contents + keys, own[3] + inside[3], own[4] + inside[4]]


def _own(value: Any) -> list[float]:
    """The figures of an object by itself."""
    array = tensor = 0
    with suppress(Exception):  # a sparse tensor has no storage
        if isinstance(value, torch.Tensor):
            tensor = value.untyped_storage().nbytes() if value.device.type == "cpu" else 0
        elif isinstance(value.nbytes, int):
            array = value.nbytes
    content = len(value) if isinstance(value, (str, bytes)) else 8 * isinstance(value, (int, float))
    return [1, max(sys.getsizeof(value) - array, 0), content, array, tensor]


def _parts_of(value: Any) -> Iterator[Any]:
    """Yield the attributes of an object, or what a function has from around it."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is empty
                yield cell.cell_contents
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        yield from [*attributes.values()]


def kept_by_cache(cache: Any) -> dict[Any, Any] | list[Any]:
    """Return the results that a function made by `functools.lru_cache` keeps.

    Without a limit, it has them in a dict. With one, they are in objects of C that cannot be looked into, but the
    function tells the garbage collector of what is in them: a key, a result, and their type, of one after the other.
    """
    known, count = gc.get_referents(cache), cache.cache_info().currsize
    if cache.cache_parameters()["maxsize"] is None:
        return next((each for each in known if type(each) is dict and each is not cache.__dict__), {})
    entries = [each for each in known if not (type(each) is type and each.__name__ in ENTRY_TYPES)]
    return entries[1 : 2 * count : 2]


def _how_many(looked_at: int, different: int, length: int) -> float:
    """Estimate how many different objects a container has, by how often a sample of it has the same one twice.

    Of n that are drawn of N, about n * n / (2 * N) pairs are the same.
    """
    if different == looked_at:
        return length
    if looked_at >= length:
        return different
    return max(different, min(length, looked_at**2 / (2 * (looked_at - different))))


def describe_container(value: Any) -> str:
    """Return the type of a container and of its first entry, such as "list of str"."""
    entries = entries_of(value, 1)
    kind = type(value).__name__
    return f"{kind} of {type(entries[0]).__name__}" if entries else kind


def entries_of(value: Any, most: int) -> list[Any] | None:
    """Return some entries of a container; None for what is no container of Python objects."""
    if isinstance(value, (list, tuple)):
        step = max(len(value) // most, 1)
        return list(value[::step][:most])
    if isinstance(value, dict):
        return [*islice(value.values(), 0, None, max(len(value) // most, 1))][:most]
    if isinstance(value, (set, frozenset)):
        return [*islice(value, most)]
    if getattr(getattr(value, "dtype", None), "hasobject", False) is True:
        step = max(length_of(value) // most, 1)
        return list(value.reshape(-1)[::step][:most]) if hasattr(value, "reshape") else None
    return None


def length_of(value: Any) -> int:
    """Return how many entries a container has."""
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return len(value)  # a tuple may have a field of the name "size"
    size = getattr(value, "size", None)
    return size if isinstance(size, int) else len(value)
