"""Finds the containers that variables of the user's code lead to, with their lengths and their sizes."""

import queue
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

import torch

from workshop.probe.event_file import EventFile
from workshop.probe.memory.dataset_attributes import entries_of, length_of
from workshop.probe.memory.holder_names import Variable, user_variables
from workshop.probe.memory.memory_notes import UserContainer
from workshop.probe.user_code import is_user_code

KINDS = (list, dict, set, deque)
MAX_WAY = 4
"""The way from a variable to a container has at most so many attributes or keys."""

FEW = 32
"""Only what is no longer than this is looked into for other containers."""

MIN_LENGTH = 8
"""Shorter containers are not noted."""

MAX_SEEN, MAX_NOTED = 20_000, 100
SAMPLE, FURTHER, MAX_NESTED = 16, 4, 5
"""So many entries are looked at to estimate a size, so many further in, and so deep."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
"""What a module keeps its hooks in."""

LIMITS = ("cap", "max", "limit", "size")
"""A number of which the name has one of these, beside a container, may be the length that it will have when full."""


def user_containers() -> Iterator[tuple[Variable, str, int, int]]:
    """Yield the longest containers: the way to each, its type, its length, and its size in bytes.

    The size is estimated from some of its entries, with the tensors and arrays in them. What has a limit that it has
    not reached is left out: a queue or a deque of a largest length, or one beside a number that may be its limit.
    """
    found: dict[int, tuple[Variable, Any]] = {}
    for place in _reached(user_variables()):
        value = place.value.queue if isinstance(place.value, queue.Queue) else place.value
        if isinstance(value, KINDS) and _is_container(value) and len(value) >= MIN_LENGTH and not _will_be_full(place):
            found.setdefault(id(value), (place, value))
    longest = sorted(found.values(), key=lambda each: len(each[1]), reverse=True)[:MAX_NOTED]
    for place, value in longest:
        try:
            entries = list(value) if isinstance(value, deque) else value
            yield place, type(place.value).__name__, len(value), size_of(entries)
        except RuntimeError:  # another thread has changed it meanwhile
            continue


def _is_container(value: Any) -> bool:
    """Whether something is one whose length is told without code of the user's."""
    return any(isinstance(value, kind) and type(value).__len__ is kind.__len__ for kind in (*KINDS, tuple))


def note_containers(step: int, events: EventFile) -> None:
    """Note them, after so many steps."""
    for place, container, length, size in user_containers():
        events.write(
            UserContainer,
            holder=place.name,
            holder_stack=(place.frame,),
            container=container,
            length=length,
            bytes=size,
            step=step,
        )


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
    if nested == MAX_NESTED:
        return own
    entries = entries_of(value, SAMPLE if not nested else FURTHER)
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


def _reached(variables: Iterable[Variable]) -> Iterator[Variable]:
    """Yield what variables lead to, the shortest ways first."""
    ahead, seen = list(variables), set[int]()
    for _ in range(MAX_WAY):
        following = []
        for each in ahead:
            if id(each.value) not in seen and len(seen) < MAX_SEEN:
                seen.add(id(each.value))
                yield each
                following += [
                    Variable(f"{each.name}{way}", value, each.frame, each) for way, value in _inside(each.value)
                ]
        ahead = following


def _inside(value: Any) -> list[tuple[str, Any]]:
    """What is looked into: small containers, objects of the user's classes, and modules."""
    if isinstance(value, (list, tuple, dict)) and not (_is_container(value) and len(value) <= FEW):
        return []
    if isinstance(value, dict):
        items = list(dict.items(value))
        return [(f"[{key!r}]", each) for key, each in items if type(key) in (str, int)]
    if isinstance(value, (list, tuple)):
        return [("[...]", each) for each in value]
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict) or isinstance(value, type):
        return []
    own = list(attributes.items()) if _is_of_user(type(value)) else []
    if isinstance(value, torch.nn.Module):
        own += [(name, attributes.get(name)) for name in HOOKS] + list(attributes.get("_modules", {}).items())
    return [(f".{name}", each) for name, each in own if name != "_modules"]


def _is_of_user(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and is_user_code(path)


def _will_be_full(place: Variable) -> bool:
    """Whether a container has a limit, as far as can be seen."""
    value = place.value
    if isinstance(value, queue.Queue):
        return value.maxsize > 0
    if isinstance(value, deque) and value.maxlen is not None:
        return True
    beside = getattr(place.of.value, "__dict__", {}) if place.of else {}
    return any(
        type(limit) is int and limit > len(value) and any(each in name.lower() for each in LIMITS)
        for name, limit in list(beside.items())
    )
