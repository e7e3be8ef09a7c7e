"""What a process has: the variables of the user's code, and what they lead to. No code of the user's runs for it."""

import gc
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, GeneratorType, ModuleType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from workshop.probe.internals import WORKER_LOOP, frame_above, frames_of, locals_of
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

CACHE = type(lru_cache(lambda: 0))
"""What `functools.lru_cache` and `functools.cache` make of a function."""

CONTAINERS = (list, tuple, set, frozenset, deque)
OPENED = (list, tuple, dict)
ITERATORS = (map, filter, zip, enumerate, itertools.chain, itertools.islice)
"""These hold other iterators."""

OF_TORCH = (Dataset, DataLoader)
"""Of torch's own objects, these are looked into, and modules."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
"""What a module keeps its hooks in."""

MAX_WAY, FEW, MAX_REACHED = 4, 32, 20_000
"""Attributes, keys or iterators on the way from a variable, entries of a container that is looked into, and objects
that are reached, at most."""

MAX_WRAPPED = 5
"""Datasets inside of each other, at most, that are looked into."""

NO_FRAME: WireFrame = ("", "", 0)


@dataclass(frozen=True)
class Variable:
    """A variable, or what one leads to."""

    name: str
    """Such as "history", or "tracker.history" for what it leads to."""
    value: Any
    frame: WireFrame
    """The function whose variable it is; for a module's variable its file, with line 0."""
    of: "Variable | None" = None
    """What has it as an attribute or an entry; None for a variable."""

    @property
    def stack(self) -> tuple[WireFrame, ...]:
        """Where what fills it may be: the function of the variable, then the user's classes of what has it."""
        owner = self.of
        while owner is not None and is_a(owner.value, (dict, *CONTAINERS)):
            owner = owner.of
        return self.frame, *(classes_of(owner.value) if owner else ())


def user_variables() -> list[Variable]:
    """Return the variables of the user's functions that run, outermost first, and of the user's modules."""
    frames = [each for each in running_frames() if is_user_code(each.f_code.co_filename)]
    return [*(each for frame in frames[::-1] for each in variables_of(frame)), *user_modules()]


def worker_variables(dataset: Any) -> list[Variable]:
    """Return the same of a DataLoader's worker, asked from another thread of it: its dataset, and what it iterates."""
    main = threading.main_thread().ident
    loops = [each for each in frames_of(main or 0) if each.f_code.co_name == WORKER_LOOP]
    iterated = [getattr(locals_of(each).get("fetcher"), "dataset_iter", None) for each in loops]
    named = [("dataset", dataset), *(("iterator", each) for each in iterated if each is not None)]
    return [*(Variable(name, value, NO_FRAME) for name, value in named), *user_modules()]


def variables_of(frame: FrameType) -> list[Variable]:
    """Return the variables of a function that runs."""
    return [Variable(name, value, frame_of(frame)) for name, value in locals_of(frame).items()]


def frame_of(frame: FrameType) -> WireFrame:
    """Return where a function is."""
    return frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0


def user_modules() -> Iterator[Variable]:
    """Yield the variables of the user's modules."""
    for module in list(sys.modules.values()):
        # Not all that is there is a module, even if it says so; and a lazy one is left as it is.
        names = object.__getattribute__(module, "__dict__") if is_a(module, ModuleType) else {}
        path = names.get("__file__")
        if isinstance(path, str) and is_user_code(path) and os.path.exists(path):  # that of torch.ops is no path
            for name, value in list(names.items()):
                yield Variable(name, value, ("<module>", path, 0))


def running_frames() -> list[FrameType]:
    """Return the frames of all threads, innermost first, without those of the workshop."""
    own: FrameType | None = frame_above(2)
    found = []
    while own is not None:
        found.append(own)
        own = own.f_back
    for thread in threading.enumerate():
        if thread.ident not in (threading.get_ident(), None):
            found += frames_of(thread.ident)
    return [each for each in found if not each.f_globals.get("__name__", "").startswith("workshop.probe")]


def reached(variables: Iterable[Variable], most: int = MAX_REACHED) -> list[Variable]:
    """Return what variables lead to, the shortest ways first."""
    ahead, seen, found = list(variables), set[int](), list[Variable]()
    for _ in range(MAX_WAY + 1):
        following = []
        for each in ahead:
            if id(each.value) not in seen and len(seen) < most:
                seen.add(id(each.value))
                found.append(each)
                with suppress(Exception):  # another thread has changed it, or it is like nothing else
                    following += [Variable(name, value, frame, each) for name, value, frame in _inside(each)]
        ahead = following
    return found


def _inside(of: Variable) -> Iterator[tuple[str, Any, WireFrame]]:
    """What is looked into: small containers, objects of the user's classes, datasets, modules and iterators."""
    value = of.value
    if is_a(value, OPENED):
        if has_plain_length(value, OPENED) and len(value) <= FEW:
            yield from ((f"{of.name}{way}", each, of.frame) for way, each in _entries(value))
    elif is_a(value, GeneratorType):
        if (where := waits_at(value)) is not None:
            yield from ((name, each, where) for name, each in locals_of(value.gi_frame).items())
    elif is_a(value, ITERATORS):
        yield from ((of.name, each, of.frame) for each in gc.get_referents(value))
    else:
        yield from ((f"{of.name}.{name}", each, of.frame) for name, each in _attributes(value))


def _entries(value: Any) -> list[tuple[str, Any]]:
    if is_a(value, dict):
        return [(f"[{key!r}]", each) for key, each in list(dict.items(value)) if type(key) in (str, int)]
    plain: Any = list if is_a(value, list) else tuple  # and no __iter__ of the user's
    return [("[...]", each) for each in plain.__iter__(value)]


def waits_at(value: Any) -> WireFrame | None:
    """Return where a generator of the user's waits for its next turn; None for anything else."""
    frame = value.gi_frame if is_a(value, GeneratorType) else None
    return frame_of(frame) if frame is not None and is_user_code(frame.f_code.co_filename) else None


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
        own += [(name, each) for name, each in vars(type(value)).items() if is_a(each, CACHE)]
    return [(name, each) for name, each in own if name != "_modules"]


def _is_of_user(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(path, str) and is_user_code(path)


def classes_of(value: Any) -> tuple[WireFrame, ...]:
    """Return the classes of an object that are the user's, the innermost first: the name, the file, and line 0.

    Of a class, they are itself and those that it derives from.
    """
    kinds = [each for each in (value if isinstance(value, type) else type(value)).__mro__ if _is_of_user(each)]
    return tuple((each.__qualname__, str(sys.modules[each.__module__].__file__), 0) for each in kinds)


def attributes_of(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Yield each attribute of a dataset, and of those that it wraps, with its name."""
    name = "dataset"
    for _ in range(MAX_WRAPPED):
        values = getattr(dataset, "__dict__", None)
        if not isinstance(values, dict):
            return
        for key, value in list(values.items()):
            yield f"{name}.{key}", value
        dataset, name = values.get("dataset"), f"{name}.dataset"


def innermost_dataset(dataset: Any) -> Any:
    """Return the dataset that a dataset wraps, and that wraps none itself."""
    for _ in range(MAX_WRAPPED):
        if (inner := getattr(dataset, "__dict__", {}).get("dataset")) is None:
            break
        dataset = inner
    return dataset


def owner_of(dataset: Any, name: str) -> Any:
    """Return the dataset that has an attribute by a name that `attributes_of` has yielded."""
    for _ in range(name.count(".") - 1):
        dataset = vars(dataset)["dataset"]
    return dataset


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Return whether something is of one of some types; `isinstance` also asks for its __class__, which may load it."""
    return issubclass(type(value), kinds)


def has_plain_length(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether something is a container of one of some kinds, and none of its code is the user's."""
    return any(is_a(value, kind) and type(value).__len__ is kind.__len__ for kind in kinds)  # type: ignore[attr-defined]
