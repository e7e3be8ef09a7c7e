"""Finds the containers and arrays that variables of the user's code lead to, with their lengths and their sizes."""

import queue
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import torch
from torch.utils.data import Dataset

from workshop.probe.event_file import EventFile
from workshop.probe.memory.array_content import (
    STRETCH,
    content_of,
    loaded_numpy,
    narrower_type,
    places_in,
    repeats,
)
from workshop.probe.memory.memory_notes import LRU_CACHE, MIN_HELD, HeldObject, HeldObjects
from workshop.probe.memory.object_sizes import count_objects, kept_by_cache
from workshop.probe.memory.process_memory import is_of_file
from workshop.probe.memory.variables import (
    CACHE,
    FEW,
    Variable,
    has_plain_length,
    is_a,
    reached,
    user_variables,
    worker_variables,
)
from workshop.probe.observations import WireFrame

KINDS = (list, dict, set, deque)
MIN_LENGTH = 8
"""Entries of a container, at least, that is noted."""

MAX_NOTED = 100
"""Containers, and arrays, at most, that are noted: the longest and the largest ones."""

MAX_OF_WORKER, NEWEST = 2000, 8
"""Objects that are reached in a worker, and newest entries of each container that are looked at, at most: to look at
one makes its page the worker's own."""

LIMITS = ("cap", "max", "limit", "size")
"""A number of which the name has one of these, beside a container, may be the length that it will have when full."""


def note_host_objects(step: int, events: EventFile) -> None:
    """Note the longest containers and the largest arrays, after so many steps."""
    events.write(HeldObjects, step=step, objects=tuple(host_objects()))


def host_objects() -> Iterator[HeldObject]:
    """Yield them."""
    places = reached(user_variables())
    yield from _containers(places)
    if loaded_numpy():
        yield from _numbers(places)


def objects_of_worker(dataset: Any) -> Iterator[HeldObject]:
    """Yield what a worker has in its copy of the dataset, in what it iterates, and in caches of functions."""
    places = reached(worker_variables(dataset), MAX_OF_WORKER)
    for place in places:
        with suppress(Exception):  # the worker has changed it meanwhile, or it is like nothing else
            array = _own_array(place.value) if place.name.startswith("dataset.") else None  # others may be of an item
            if array is not None and array.nbytes >= MIN_HELD:
                yield _noted(place, len(array), array.nbytes)
            elif (container := _opened(place.value)) and container[0] >= MIN_LENGTH and not _is_limited(place.value):
                yield _newest_of(place, *container)
    yield from _arrays_of_generators(places)


# Containers


def _containers(places: list[Variable]) -> Iterator[HeldObject]:
    """Yield short lists of large entries, and the longest containers, with the tensors and arrays in them."""
    found: dict[int, tuple[int, Variable, Any]] = {}
    for place in places:
        if (container := _opened(place.value)) and (container[0] >= MIN_LENGTH or _may_be_large(container[1])):
            is_record = is_a(place.value, dict) and place.of is not None and id(place.of.value) in found
            if not is_record:  # what has it is noted
                found.setdefault(id(place.value), (container[0], place, container[1]))
    short = [each for each in found.values() if each[0] < MIN_LENGTH]
    longest = sorted((each for each in found.values() if each[0] >= MIN_LENGTH), key=lambda each: each[0], reverse=True)
    for length, place, value in (*short[:MAX_NOTED], *longest[:MAX_NOTED]):
        with suppress(Exception):  # another thread has changed it meanwhile, or it is like nothing else
            count = count_objects(list(value) if is_a(value, deque) else value)
            yield _noted(
                place,
                length,
                count.size,
                has_limit=_will_be_full(place, length),
                identity=id(place.value),
                first_entries=_first_entries(place.value),
                objects=count.objects,
                spare_bytes=max(count.bytes - count.content_bytes, 0),
            )


def _first_entries(value: Any) -> tuple[int, ...]:
    plain: Any = next((each.__iter__(value) for each in (list, dict) if is_a(value, each)), ())  # no code of the user's
    return tuple(map(id, islice(plain, MIN_LENGTH)))


def _may_be_large(value: Any) -> bool:
    """Whether a short list may have large entries, such as the weights of a model."""
    return type(value) is list and len(value) > 0 and is_a(value[0], (dict, torch.Tensor))


def _opened(value: Any) -> tuple[int, Any] | None:
    """Return the length of a container, a queue or a cache, and what it has; None for anything else."""
    if is_a(value, CACHE):
        return value.cache_info().currsize, kept_by_cache(value)
    if is_a(value, queue.Queue):
        value = value.queue
    return (len(value), value) if is_a(value, KINDS) and has_plain_length(value, KINDS) else None


def _newest_of(place: Variable, length: int, value: Any) -> HeldObject:
    """A container of a worker, whose size is estimated from its newest entries."""
    newest: list[Any] = value[-NEWEST:] if isinstance(value, list) else []
    if isinstance(value, dict):
        newest = [*islice(reversed(dict.values(value)), NEWEST)]
    return _noted(place, length, round(count_objects(newest).size / max(len(newest), 1) * length))


def _will_be_full(place: Variable, length: int) -> bool:
    """Whether a container has a limit, as far as can be seen: a largest length, or a number beside it."""
    beside = getattr(place.of.value, "__dict__", {}) if place.of else {}
    return _is_limited(place.value) or any(
        type(limit) is int and limit > length and any(each in name.lower() for each in LIMITS)
        for name, limit in list(beside.items())
    )


def _is_limited(value: Any) -> bool:
    if is_a(value, CACHE):
        return value.cache_parameters()["maxsize"] is not None
    return value.maxsize > 0 if is_a(value, queue.Queue) else is_a(value, deque) and value.maxlen is not None


# Arrays and tensors


def _numbers(places: list[Variable]) -> Iterator[HeldObject]:
    """Yield the largest arrays of NumPy, and the tensors on the CPU that have more bytes than what is in them needs."""
    datasets = [each.value for each in places if is_a(each.value, Dataset)]
    of_datasets = {id(array if (array := _own_array(each)) is not None else each) for each in _held_by(datasets)}
    arrays, tensors = dict[int, tuple[Variable, Any]](), list[tuple[Variable, Any]]()
    for place in places:
        array = _own_array(place.value)
        if array is not None and array.nbytes >= MIN_HELD:
            arrays.setdefault(id(array), (place, array))
        elif type(place.value) is torch.Tensor and _is_whole(place.value):
            tensors.append((place, place.value.detach()))
    for place, array in sorted(arrays.values(), key=lambda each: -each[1].nbytes)[:MAX_NOTED]:
        with suppress(Exception):  # it is like nothing else
            content = content_of(array)
            first = (hash(array.reshape(-1, order="A")[:MIN_LENGTH].tobytes()),)
            about = {**content._asdict(), "first_entries": first, "of_dataset": id(array) in of_datasets}
            size = round(array.nbytes * about.pop("resident"))
            yield _noted(place, len(array), size, dtype=str(array.dtype), shape=array.shape, **about)
    for place, tensor in sorted(tensors, key=lambda each: -each[1].nbytes)[:MAX_NOTED]:
        with suppress(Exception):  # a type that NumPy does not have
            window, shift = repeats(tensor)
            of_dataset = id(place.value) in of_datasets
            narrower = _narrower(tensor) if of_dataset or _is_of_object(place) else ""
            if shift or narrower:
                about = {"window": window, "shift": shift, "narrower": narrower, "of_dataset": of_dataset}
                dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
                yield _noted(place, len(tensor), tensor.nbytes, dtype=dtype, shape=shape, **about)


def _held_by(datasets: list[Any]) -> Iterator[Any]:
    """Yield what datasets have, and what is in their lists and tuples."""
    for value in (each for dataset in datasets for each in list(getattr(dataset, "__dict__", {}).values())):
        yield from value if type(value) in (list, tuple) and len(value) <= FEW else [value]


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor has all of a large storage that is in memory, and no file's: reading that may take long."""
    with suppress(Exception):  # it has no storage
        is_plain = tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.nbytes >= MIN_HELD
        return is_plain and tensor.nbytes == tensor.untyped_storage().nbytes() and not is_of_file(tensor.data_ptr())
    return False


def _is_of_object(place: Variable) -> bool:
    """Whether something has it that is no model: a plain variable may be of a single step."""
    return place.of is not None and not is_a(place.of.value, torch.nn.Module) and "._buffers" not in place.name


def _narrower(tensor: torch.Tensor) -> str:
    """The same as of an array; the tensor stays as it is, as numpy() pins its storage."""
    if not tensor.is_floating_point():
        return ""
    flat = tensor.view(-1)
    stretches = torch.cat([flat[each : each + STRETCH] for each in places_in(len(flat))])
    return narrower_type(stretches.numpy())[0]


def _own_array(value: Any) -> Any:
    """Return an array that has memory of its own, or what a view is of; None for others, and for a mapped file."""
    if (np := loaded_numpy()) is None:
        return None
    while is_a(value, np.ndarray) and not is_a(value, np.memmap) and is_a(value.base, np.ndarray):
        value = value.base
    is_plain = type(value) is np.ndarray and value.ndim > 0 and value.flags.owndata and not value.dtype.hasobject
    return value if is_plain and (value.flags.c_contiguous or value.flags.f_contiguous) else None


def _arrays_of_generators(places: list[Variable]) -> Iterator[HeldObject]:
    """Yield the arrays that variables of what is iterated lead to, those of one variable together."""
    found = dict[tuple[str, WireFrame], dict[int, Any]]()
    for place in places:
        array = _own_array(place.value) if place.frame[1] and place.frame[0] != "<module>" else None
        if array is not None and array.nbytes >= MIN_HELD:
            function, file, _ = place.frame  # the line is where it has come to
            found.setdefault((place.name, (function, file, 0)), {})[id(array)] = array
    for (name, frame), arrays in found.items():
        length, size = (sum(each) for each in zip(*((len(one), one.nbytes) for one in arrays.values()), strict=True))
        yield HeldObject(name, (frame,), "ndarray", length, size, identity=min(arrays))


def _noted(place: Variable, length: int, size: int, **more: Any) -> HeldObject:
    """Note something; of a function's cache, at the function, and how often it was asked and had the answer."""
    container, frame = type(place.value).__name__, place.frame
    if is_a(place.value, CACHE):
        code, info = getattr(place.value.__wrapped__, "__code__", None), place.value.cache_info()
        container, frame = LRU_CACHE, (code.co_name, code.co_filename, code.co_firstlineno) if code else place.frame
        more |= {"asked": info.hits + info.misses, "answered": info.hits}
    return HeldObject(place.name, (frame, *place.stack[1:]), container, length, size, **more)
