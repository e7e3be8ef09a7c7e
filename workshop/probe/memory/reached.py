"""What variables of the user's code lead to: through attributes, keys, entries, and what a waiting generator has."""

import gc
import itertools
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from types import GeneratorType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from workshop.probe.internals import locals_of
from workshop.probe.memory.holder_names import Variable
from workshop.probe.user_code import is_user_code

LRU_CACHE = type(lru_cache(lambda: 0))
"""What `functools.lru_cache` and `functools.cache` make of a function."""

ITERATORS = (map, filter, zip, enumerate, itertools.chain, itertools.islice)
"""These hold other iterators."""

OF_TORCH = (Dataset, DataLoader)
"""Of torch's own objects, these are looked into, and modules."""

MAX_WAY = 4
"""The way from a variable has at most so many attributes, keys or iterators."""

FEW = 32
"""Only containers that are no longer than this are looked into."""

MAX_SEEN = 20_000

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
"""What a module keeps its hooks in."""


def reached(variables: Iterable[Variable], most: int = MAX_SEEN) -> list[Variable]:
    """Return what variables lead to, the shortest ways first; no code of the user's runs for it."""
    ahead, seen, found = list(variables), set[int](), list[Variable]()
    for _ in range(MAX_WAY + 1):
        following = []
        for each in ahead:
            if id(each.value) not in seen and len(seen) < most:
                seen.add(id(each.value))
                found.append(each)
                with suppress(Exception):  # another thread has changed it, or it is like nothing else
                    following += _inside(each)
        ahead = following
    return found


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Return whether something is of one of some types; `isinstance` also asks for its __class__, which may load it."""
    return issubclass(type(value), kinds)


def has_plain_length(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether something is a container of one of some kinds, and none of its code is the user's."""
    return any(is_a(value, kind) and type(value).__len__ is kind.__len__ for kind in kinds)  # type: ignore[attr-defined]


def _inside(of: Variable) -> list[Variable]:
    """What is looked into: small containers, objects of the user's classes, datasets, modules and iterators."""
    value = of.value
    if is_a(value, (list, tuple, dict)):
        if not has_plain_length(value, (list, tuple, dict)) or len(value) > FEW:
            return []
        if is_a(value, dict):
            items = [(f"[{key!r}]", each) for key, each in list(dict.items(value)) if type(key) in (str, int)]
        else:
            plain: Any = list if is_a(value, list) else tuple  # and no __iter__ of the user's
            items = [("[...]", each) for each in plain.__iter__(value)]
        return [Variable(f"{of.name}{way}", each, of.frame, of) for way, each in items]
    if is_a(value, GeneratorType):
        return _waiting(value, of)
    if is_a(value, ITERATORS):
        return [Variable(of.name, each, of.frame, of) for each in gc.get_referents(value)]
    return [Variable(f"{of.name}.{name}", each, of.frame, of) for name, each in _attributes(value)]


def _waiting(generator: "GeneratorType[Any, Any, Any]", of: Variable) -> list[Variable]:
    """The variables of a generator that waits for its next turn."""
    frame = generator.gi_frame
    if frame is None or not is_user_code(frame.f_code.co_filename):
        return []
    where = frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0
    return [Variable(name, value, where, of) for name, value in locals_of(frame).items()]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    try:
        attributes = object.__getattribute__(value, "__dict__")  # no __getattr__ of the user's
    except (AttributeError, TypeError):
        return []
    if not isinstance(attributes, dict) or is_a(value, type):
        return []
    of_user = _is_of_user(type(value))
    own = list(attributes.items()) if of_user or is_a(value, OF_TORCH) else []
    if is_a(value, torch.nn.Module):
        own += [(name, attributes.get(name)) for name in HOOKS] + list(attributes.get("_modules", {}).items())
    if of_user:
        own += [(name, each) for name, each in vars(type(value)).items() if is_a(each, LRU_CACHE)]
    return [(name, each) for name, each in own if name != "_modules"]


def _is_of_user(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and is_user_code(path)
