"""What a process has: the variables of the user's code, and what they lead to. No code of the user's runs for it.

A walk that is open goes where a person would look: into small containers, and objects of the user's. One that is whole
goes wherever a tensor may be held.
"""

import gc
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from types import FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from workshop.probe.garbage import all_of
from workshop.probe.internals import WORKER_LOOP, frame_above, frames_of, locals_of
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

CACHE = type(lru_cache(lambda: 0))
"""What `functools.lru_cache` and `functools.cache` make of a function."""

CONTAINERS = (list, tuple, set, frozenset, deque)
OPENED = (list, tuple, dict)
ITERATORS = (map, filter, zip, enumerate, itertools.chain, itertools.islice)
"""These hold other iterators."""

PLAIN = (type(None), bool, int, float, str, bytes)
"""These lead to nothing."""

OF_TORCH = (Dataset, DataLoader)
"""Of torch's own objects, these are looked into, and modules."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
"""What a module keeps its hooks in."""

MAX_WAY, FEW, MAX_REACHED = 4, 32, 20_000
"""Attributes, keys or iterators on the way from a variable, entries of a container that is looked into, and objects
that are reached, at most, by an open walk."""

MAX_WHOLE_WAY, MAX_WHOLE = 9, 100_000
"""The same of the way and the objects, by a whole walk."""

MAX_WRAPPED = 5
"""Datasets inside of each other, at most, that are looked into."""

NO_FRAME: WireFrame = ("", "", 0)


class Variable(NamedTuple):
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
        owners = (each for each in self.way if not is_a(each.value, (dict, *CONTAINERS)))
        return self.frame, *next(filter(None, (classes_of(each.value) for each in owners)), ())

    @property
    def way(self) -> "Iterator[Variable]":
        """What has it, what has that, and so on."""
        owner = self.of
        while owner is not None:
            yield owner
            owner = owner.of

    @property
    def limit(self) -> int:
        """The number of entries that a container on the way to it has at most; 0 without a limit."""
        limits = [each.value.maxlen for each in self.way if is_a(each.value, deque)]
        return next(filter(None, limits), 0)


def user_variables() -> list[Variable]:
    """Return the variables of the user's functions that run, outermost first, and of the user's modules."""
    frames = [each for each in running_frames() if is_user_code(each.f_code.co_filename)]
    return [*(each for frame in frames[::-1] for each in variables_of(frame)), *user_modules()]


def tensor_variables(extra_frames: Iterable[FrameType] = ()) -> dict[int, Variable]:
    """Return who holds each tensor, by the tensor's identity: the shortest way from a variable, or a loop's generator.

    Args:
        extra_frames: those of a traceback, whose variables are still there.
    """
    outermost_first = [*running_frames(), *extra_frames][::-1]
    frames = sorted(outermost_first, key=lambda each: not is_user_code(each.f_code.co_filename))
    seen = set[int]()
    held = [*_walk([*(each for frame in frames for each in variables_of(frame)), *user_modules()], True, seen)]
    waiting = [each for each in all_of(GeneratorType) if id(each) not in seen]
    of_loops = [each for of in waiting for each in _inside(Variable("", of, NO_FRAME), whole=False)]
    held += _walk(of_loops, True, seen)
    return {id(each.value): each for each in held if is_a(each.value, torch.Tensor)}


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
    own: FrameType | None = frame_above(1)
    found = []
    while own is not None:
        found.append(own)
        own = own.f_back
    for thread in threading.enumerate():
        if thread.ident not in (threading.get_ident(), None):
            found += frames_of(thread.ident)
    return [each for each in found if not each.f_globals.get("__name__", "").startswith("workshop.probe")]


def reached(variables: Iterable[Variable], most: int = MAX_REACHED) -> list[Variable]:
    """Return what variables lead to by an open walk, the shortest ways first."""
    return list(_walk(variables, False, set(), most, MAX_WAY))


def _walk(
    ahead: Iterable[Variable], whole: bool, seen: set[int], most: int = MAX_WHOLE, longest: int = MAX_WHOLE_WAY
) -> Iterator[Variable]:
    for _ in range(longest + 1):
        following = list[Variable]()
        for each in ahead:
            if type(each.value) not in PLAIN and id(each.value) not in seen and len(seen) < most:
                seen.add(id(each.value))
                yield each
                with suppress(Exception):  # another thread has changed it, or it is like nothing else
                    following += _inside(each, whole)
        ahead = following


def _inside(of: Variable, whole: bool) -> Iterator[Variable]:
    """Yield what something has, if it is looked into."""
    value = of.value
    if is_a(value, OPENED) or (whole and is_a(value, CONTAINERS)):
        if has_plain_length(value, (dict, *CONTAINERS)) and (len(value) <= FEW or (whole and _leads_to_tensors(value))):
            yield from (Variable(f"{of.name}{way}", each, of.frame, of) for way, each in _entries(value, whole))
    elif is_a(value, GeneratorType):
        if (where := waits_at(value)) is not None:
            for name, each in locals_of(value.gi_frame).items():
                yield Variable(f"{of.name}.{name}", each, of.frame, of) if whole else Variable(name, each, where, of)
    elif is_a(value, ITERATORS):
        yield from (Variable(of.name, each, of.frame, of) for each in gc.get_referents(value))
    elif not (whole and is_a(value, torch.Tensor)):
        parts = (*_attributes(value, whole), *(_of_code(value) if whole else ()))
        yield from (Variable(f"{of.name}.{name}", each, of.frame, of) for name, each in parts)


def _entries(value: Any, whole: bool) -> Iterator[tuple[str, Any]]:
    if is_a(value, dict):
        for key, each in list(dict.items(value)):
            if type(key) in (str, int) or whole:
                yield f"[{key!r}]" if type(key) in (str, int) else "[...]", each
    else:
        plain: Any = next(each for each in CONTAINERS if is_a(value, each))  # and no __iter__ of the user's
        yield from (("[...]", each) for each in list(plain.__iter__(value)))


def _leads_to_tensors(value: Any, deep: int = 3) -> bool:
    """Whether one of a few entries leads to a tensor: to go through all of others would touch what workers share."""
    if deep == 0 or is_a(value, torch.Tensor):
        return is_a(value, torch.Tensor)
    plain: Any = next((each for each in (dict, *CONTAINERS) if is_a(value, each)), None)
    if plain in (list, tuple):
        last = plain.__len__(value) - 1
        some: Iterable[Any] = [plain.__getitem__(value, at) for at in {0, last // 2, last} if at >= 0]
    elif plain:
        some = islice(dict.values(value) if plain is dict else plain.__iter__(value), 3)
    else:
        some = (part for _, part in (*_attributes(value, True), *_of_code(value)))
    return any(_leads_to_tensors(each, deep - 1) for each in islice(some, FEW))


def _of_code(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function has from around it, and what the functions had that an exception has ended."""
    if is_a(value, FunctionType):
        yield from (("__closure__[...]", each.cell_contents) for each in value.__closure__ or ())
    trace = value.__traceback__ if is_a(value, BaseException) else None
    while trace is not None:
        yield from ((f"__traceback__.{name}", each) for name, each in locals_of(trace.tb_frame).items())
        trace = trace.tb_next


def waits_at(value: Any) -> WireFrame | None:
    """Return where a generator of the user's waits for its next turn; None for anything else."""
    frame = value.gi_frame if is_a(value, GeneratorType) else None
    return frame_of(frame) if frame is not None and is_user_code(frame.f_code.co_filename) else None


def _attributes(value: Any, whole: bool) -> list[tuple[str, Any]]:
    of_user = _is_of_user(value if is_a(value, type) else type(value))
    if is_a(value, type):
        return list(vars(value).items()) if whole and of_user else []
    own = list[tuple[str, Any]]()
    if whole:
        slots = [each for kind in type(value).__mro__ for each in vars(kind).get("__slots__", ())]
        own += [(each, getattr(value, each, None)) for each in slots if not each.startswith("__")]
    try:
        attributes = object.__getattribute__(value, "__dict__")  # no __getattr__ of the user's
    except (AttributeError, TypeError):
        return own
    if not isinstance(attributes, dict) or is_a(value, ModuleType):
        return own
    own += list(attributes.items()) if whole or of_user or is_a(value, OF_TORCH) else []
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
