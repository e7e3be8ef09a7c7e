"""How many Python objects there are in something, and how many bytes, estimated from some of it."""

import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from types import FunctionType
from typing import Any, NamedTuple

import torch

from workshop.probe.memory.variables import OPENED, has_plain_length

SAMPLE, FURTHER, MAX_NESTED, MAX_SEEN = 16, 4, 5, 20_000
"""Entries of a container that are looked at for its size, those further in, how deep, and how many in all, at most.
Where they are few, all are looked at: those of a model's weights are large and small in turn."""

COUNTED, COUNTED_FURTHER, MAX_COUNTED = 200, 20, 3
"""The same where Python objects are counted, as the script waits for it: two containers deep in one."""

NUMBER_BYTES, KEY_BYTES = 8, 50
"""Bytes of a number in an array, and about those of a key of a dict."""

ENTRY_TYPES = ("_lru_list_elem", "_lru_cache_wrapper")


def size_of(value: Any, nested: int = 0, seen: set[int] | None = None) -> int:
    """Return the bytes of something with what it contains, estimated from some of it; tensors count if on the CPU.

    What several entries lead to counts once, such as a model that each of them knows.
    """
    seen = set() if seen is None else seen
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes() if value.device.type == "cpu" else 0
    own = sys.getsizeof(value)
    if isinstance(getattr(value, "nbytes", None), int):
        return max(own, int(value.nbytes))
    if nested == MAX_NESTED or len(seen) > MAX_SEEN:
        return own
    is_short = has_plain_length(value, OPENED) and len(value) <= SAMPLE
    entries = entries_of(value, FURTHER if nested and not is_short else SAMPLE)
    if entries is None:
        return own + sum(size_of(each, nested + 1, seen) for each in _parts_of(value))
    sizes = [size_of(each, nested + 1, seen) for each in entries]
    if length_of(value) <= len(entries):
        return own + sum(sizes)
    return own + round(sum(sizes[1:]) / max(len(sizes) - 1, 1) * length_of(value))


def _parts_of(value: Any) -> Iterator[Any]:
    """Yield some of the attributes of an object, or what a function has from around it."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is empty
                yield cell.cell_contents
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        yield from [*attributes.values()][:SAMPLE]


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


class ObjectCount(NamedTuple):
    """How many Python objects there are in something, estimated from a sample."""

    objects: int
    bytes: int
    """An array counts with its header alone: what it contains is no Python object, and is not touched by a reader."""
    content_bytes: int
    """What their numbers and texts would take in an array."""


def count_objects(value: Any, depth: int = 0) -> ObjectCount:
    """Count the Python objects in something, with their bytes."""
    entries = entries_of(value, COUNTED_FURTHER if depth else COUNTED) if depth < MAX_COUNTED else None
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
    entries = entries_of(value, COUNTED) if depth < MAX_COUNTED else None
    if not entries:
        return 0
    return round(sum(array_bytes(each, depth + 1) for each in entries) / len(entries) * length_of(value))


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
