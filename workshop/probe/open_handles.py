"""What a dataset holds that two processes must not share, such as an open file or a connection to a database.

A process that is forked to load for a trial inherits it. What the dataset has opened as it loaded its first items is
forgotten there, so that the dataset opens its own, as it would in a worker. What it held before is told.
"""

import fcntl
import io
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from types import FunctionType, GeneratorType
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch.utils.data import DataLoader, Dataset

from workshop.probe.user_code import is_user_code

MAX_OBJECTS = 10_000
"""Objects, at most, that are looked at in a dataset."""

STANDARD_STREAMS = 2
"""The largest file descriptor of a standard stream, which all processes share on purpose."""

OPEN_FILES = "/proc/self/fd"

COPIED_BY_FORK = (GeneratorType, mmap.mmap, torch.Tensor)
"""Can be closed, and yet each process has its own, or may share it."""

PLAIN = (str, int, float, tuple, type(None))
"""What most entries of long lists are; nothing is looked for in them."""


class HeldAt(NamedTuple):
    """Where something is held: under a key of a dictionary, or at an index of a list."""

    container: int
    """The `id` of the dictionary or list."""
    key: Any


class _Noted(NamedTuple):
    """What a dataset held before an epoch of it began for the first time."""

    handles: dict[HeldAt, str]
    """The names of their types."""
    nothing: frozenset[HeldAt]
    """Where it held None."""
    dataset: ref[Any] | None = None
    """Takes this away when the dataset is gone."""


_noted: dict[int, _Noted] = {}
"""By the `id` of the dataset: it may be a tensor, or something else with an equality of its own."""


def note_handles(dataset: Any) -> None:
    """Note what a dataset holds as an epoch of it begins, if that is its first one."""
    number = id(dataset)
    if number in _noted or not type(dataset).__weakrefoffset__:
        return
    held = list(_held(dataset))
    handles = {place: type(value).__qualname__ for _, place, value in held if _is_handle(value)}
    nothing = frozenset(place for _, place, value in held if value is None)
    _noted[number] = _Noted(handles, nothing, ref(dataset, lambda _: _noted.pop(number, None)))


def handle_held_before(dataset: Any) -> str:
    """Return the type of what a dataset has held open since before its first epoch; an empty text for nothing."""
    return next(iter(_noted_of(dataset).handles.values()), "")


def why_not_forked(loader: DataLoader[Any]) -> str:
    """Return why a forked process must not load what this DataLoader does; "" if it may, as its own workers do."""
    handle = "" if loader.num_workers else handle_held_before(loader.dataset)
    return f"its dataset holds an open {handle}, which a forked process must not share with it" if handle else ""


def own_handles(dataset: Any) -> None:
    """Let this forked process open its own handles, and share no position with its parent in those that it keeps."""
    noted = _noted_of(dataset)
    for container, place, value in list(_held(dataset)):
        if _is_handle(value) and place not in noted.handles:
            if isinstance(container, list) or place in noted.nothing:
                container[place.key] = None
            else:
                del container[place.key]
    _reopen_files()


def _noted_of(dataset: Any) -> _Noted:
    return _noted.get(id(dataset)) or _Noted({}, frozenset())


def _held(dataset: Any) -> Iterator[tuple[Any, HeldAt, Any]]:
    """Yield what a dataset holds, and the objects of user code in it: the container, the place in it, and the value."""
    left, seen = [dataset], set[int]()
    while left and len(seen) < MAX_OBJECTS:
        holder = left.pop()
        container = vars(holder) if hasattr(holder, "__dict__") else holder
        if id(container) in seen or not isinstance(container, (dict, list)):
            continue
        seen.add(id(container))
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in islice(list(items), MAX_OBJECTS):
            yield container, HeldAt(id(container), key), value
            if not isinstance(value, PLAIN) and (isinstance(value, (dict, list, Dataset)) or _is_of_user(type(value))):
                left.append(value)


def _is_of_user(kind: type) -> bool:
    """Return whether a class is one of user code, given by the file of its first function."""
    functions = (member for member in vars(kind).values() if isinstance(member, FunctionType))
    function = next(functions, None)
    return function is not None and is_user_code(function.__code__.co_filename)


def _is_handle(value: Any) -> bool:
    """Return whether something is open and cannot be copied, or consists of what is."""
    kind = type(value)
    can_close = hasattr(kind, "close") or (hasattr(kind, "release") and not hasattr(kind, "acquire"))  # but no lock
    if not can_close or isinstance(value, (*COPIED_BY_FORK, Dataset)) or _is_of_user(kind):
        return False
    if isinstance(value, io.IOBase):
        try:
            return value.fileno() > STANDARD_STREAMS
        except (OSError, ValueError):  # it is in memory, or closed
            return False
    if any(map(_is_handle, getattr(value, "__dict__", {}).values())):
        return True
    if any(isinstance(getattr(kind, name, None), FunctionType) for name in ("__reduce__", "__getstate__")):
        return False  # it knows how it is copied
    try:
        value.__reduce_ex__(2)
    except TypeError:
        return True
    except Exception:  # it is not known
        return False
    return False


def _reopen_files() -> None:
    """Open each file that this process only reads once more, at its place: forked processes share a position."""
    if not os.path.isdir(OPEN_FILES):  # not on Linux
        return
    for number in [int(name) for name in os.listdir(OPEN_FILES) if int(name) > STANDARD_STREAMS]:
        with suppress(OSError):
            is_read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            if not is_read or not stat.S_ISREG(os.fstat(number).st_mode):
                continue
            own = os.open(f"{OPEN_FILES}/{number}", os.O_RDONLY)
            os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(own, number, os.get_inheritable(number))
            os.close(own)
