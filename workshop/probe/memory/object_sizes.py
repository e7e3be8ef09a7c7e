"""The bytes of Python objects with what they contain, estimated from some of it."""

import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

import torch

from workshop.probe.memory.dataset_attributes import entries_of, length_of
from workshop.probe.memory.reached import has_plain_length

SAMPLE, FURTHER, MAX_NESTED, MAX_SEEN = 16, 4, 5, 20_000
"""So many entries are looked at to estimate a size, so many further in, and so deep, and so many in all. Where they are
few, all are looked at: those of a model's weights are large and small in turn."""

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
    is_short = has_plain_length(value, (list, tuple, dict)) and len(value) <= SAMPLE
    entries = entries_of(value, FURTHER if nested and not is_short else SAMPLE)
    if entries is None:
        return own + sum(size_of(each, nested + 1, seen) for each in _parts_of(value))
    sizes = [size_of(each, nested + 1, seen) for each in entries]
    if length_of(value) <= len(entries):
        return own + sum(sizes)
    return own + round(sum(sizes[1:]) / max(len(sizes) - 1, 1) * length_of(value))


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


def _parts_of(value: Any) -> Iterator[Any]:
    """Yield some of the attributes of an object, or what a function has from around it."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # it is empty
                yield cell.cell_contents
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        yield from [*attributes.values()][:SAMPLE]
