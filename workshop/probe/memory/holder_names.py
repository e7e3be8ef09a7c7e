"""Names who holds an object: the variable, and the way from it, such as `tracker.history[...]`."""

import gc
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

from workshop.probe.internals import frame_above, frames_of, locals_of
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MAX_STEPS = 9
"""The way from a variable to what it holds is followed for so many steps."""

MAX_WIDTH = 400
"""No more objects are looked at in each of them."""

_KEY = re.compile(r"^\['(\w+)'\]")

GRAPH = "the graph of "
"""How the name of a holder begins that is a graph."""

CONTAINERS = (list, tuple, set, frozenset, deque)


@dataclass(frozen=True)
class Holder:
    """Who holds something."""

    expression: str
    frame: WireFrame
    """The function whose variable it is; for a module's variable its file, with line 0."""
    classes: tuple[WireFrame, ...] = ()
    """The user's classes of what has the last attribute on the way, as `classes_of` returns them."""
    limit: int = 0
    """The number of entries that a container on the way has at most; 0 without a limit."""

    @property
    def stack(self) -> tuple[WireFrame, ...]:
        """Where what fills it may be: the function of the variable, then the classes."""
        return self.frame, *self.classes


@dataclass(frozen=True)
class Variable:
    """A variable, or what one leads to."""

    name: str
    """Such as "history", or "tracker.history" for what it leads to."""
    value: Any
    frame: WireFrame
    """As in `Holder`."""
    of: "Variable | None" = None
    """What has it as an attribute or an entry; None for a variable."""

    @property
    def stack(self) -> tuple[WireFrame, ...]:
        """Where what fills it may be, as of a `Holder`."""
        owner = self.of
        while owner is not None and issubclass(type(owner.value), (dict, *CONTAINERS)):
            owner = owner.of
        return self.frame, *(classes_of(owner.value) if owner else ())


class _HolderWay:
    """An object on the way from a variable to what is held."""

    def __init__(
        self, target: int, value: Any, suffix: str, classes: tuple[WireFrame, ...] = (), limit: int = 0
    ) -> None:
        self.target, self.value, self.suffix, self.classes, self.limit = target, value, suffix, classes, limit


def name_holders(objects: Sequence[Any], extra_frames: Iterable[FrameType] = ()) -> list[Holder | None]:
    """Return who holds each of some objects; None where that cannot be told.

    Args:
        objects: they are not changed.
        extra_frames: those of a traceback, whose variables are still there.
    """
    roots = _variables([*_running_frames(), *extra_frames])
    found: list[Holder | None] = [None] * len(objects)
    ways = [_HolderWay(number, each, "") for number, each in enumerate(objects)]
    seen = {(number, id(each)) for number, each in enumerate(objects)}
    waiting: dict[int, Holder] = {}
    for _ in range(MAX_STEPS):
        for way in ways:
            root = roots.get(id(way.value))
            if root and found[way.target] is None:
                found[way.target] = Holder(f"{root.expression}{way.suffix}", root.frame, way.classes, way.limit)
            elif (frame := _waits_at(way.value)) is not None:  # a loop has it, and no variable
                waiting.setdefault(way.target, Holder(way.suffix.removeprefix("."), frame, way.classes, way.limit))
        ways = [way for way in ways if found[way.target] is None][:MAX_WIDTH]
        if not ways:
            break
        ways = _one_step_back(ways, seen)
    return [each or waiting.get(number) for number, each in enumerate(found)]


def _waits_at(value: Any) -> WireFrame | None:
    """Where a generator of the user's waits for its next turn; None for anything else."""
    frame = value.gi_frame if isinstance(value, GeneratorType) else None
    if frame is None or not is_user_code(frame.f_code.co_filename):
        return None
    return frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0


def classes_of(value: Any) -> tuple[WireFrame, ...]:
    """Return the classes of an object that are the user's, the innermost first: the name, the file, and line 0.

    Of a class, they are itself and those that it derives from.
    """
    found = []
    for each in (value if isinstance(value, type) else type(value)).__mro__:
        path = getattr(sys.modules.get(each.__module__), "__file__", None)
        if isinstance(path, str) and is_user_code(path):
            found.append((each.__qualname__, path, 0))
    return tuple(found)


def user_variables() -> list[Variable]:
    """Return the variables of the user's functions that run, outermost first, and of the user's modules."""
    frames = [each for each in _running_frames() if is_user_code(each.f_code.co_filename)]
    return [*(each for frame in frames[::-1] for each in _variables_of(frame)), *user_modules()]


def _one_step_back(ways: list[_HolderWay], seen: set[tuple[int, int]]) -> list[_HolderWay]:
    """The ways, each with what holds its beginning."""
    held: dict[int, list[_HolderWay]] = {}
    for way in ways:
        held.setdefault(id(way.value), []).append(way)
    values = [way.value for way in ways]
    ignored = {
        id(values),
        id(ways),
        id(held),
        *map(id, ways),
        *map(id, held.values()),
        *(id(vars(way)) for way in ways),
    }
    found: list[_HolderWay] = []
    for holder in gc.get_referrers(*values):
        if id(holder) in ignored or isinstance(holder, _HolderWay):
            continue
        for value, suffix in _held_by(holder):
            for way in held.get(id(value), ()):
                if (way.target, id(holder)) not in seen:
                    seen.add((way.target, id(holder)))
                    is_attribute = value is _attributes_of(holder)
                    rest = _KEY.sub(r".\1", way.suffix) if is_attribute else way.suffix
                    limit = (isinstance(holder, deque) and holder.maxlen) or way.limit
                    classes = way.classes or classes_of(holder)
                    found.append(_HolderWay(way.target, holder, f"{suffix}{rest}", classes, limit))
    return found


def _held_by(holder: Any) -> Iterable[tuple[Any, str]]:
    """What an object holds, each with how it is written behind the object."""
    if isinstance(holder, dict):
        return [
            (value, f"[{key!r}]" if isinstance(key, (str, int)) else "[...]") for key, value in list(holder.items())
        ]
    if isinstance(holder, CONTAINERS):
        return [(value, "[...]") for value in list(holder)]
    if isinstance(holder, BaseException):
        return [(holder.__traceback__, ".__traceback__"), (vars(holder), "")]
    if isinstance(holder, TracebackType):
        return [(holder.tb_next, ""), (holder.tb_frame, "")]
    if isinstance(holder, FrameType):  # of a function that is over, or else its variables are known
        return [(value, f".{name}") for name, value in locals_of(holder).items()]
    if isinstance(holder, CellType):
        return [(holder.cell_contents, "")]
    if isinstance(holder, FunctionType):
        return [(holder.__closure__, ".__closure__")]
    if isinstance(holder, GeneratorType):
        frame = holder.gi_frame
        return [(value, f".{name}") for name, value in locals_of(frame).items()] if frame else []
    attributes = _attributes_of(holder)
    if isinstance(holder, type):
        return [(attributes, "")]
    if isinstance(attributes, dict) and not isinstance(holder, ModuleType):
        return [(attributes, ""), *((value, f".{name}") for name, value in list(attributes.items()))]
    slots = [name for kind in type(holder).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    return [(getattr(holder, name, None), f".{name}") for name in slots]


def _attributes_of(holder: Any) -> Any:
    """The dict with the attributes of an object, or of a class of the user's."""
    if isinstance(holder, type):
        return next((each for each in gc.get_referents(holder) if type(each) is dict), None)
    return getattr(holder, "__dict__", None)


def _variables(frames: Sequence[FrameType]) -> dict[int, Holder]:
    """The variables of functions and modules by the identity of their values: first user code, and outermost frames."""
    found: dict[int, Holder] = {}
    outermost_first = frames[::-1]
    by_whom = sorted(outermost_first, key=lambda each: not is_user_code(each.f_code.co_filename))
    for each in (*(variable for frame in by_whom for variable in _variables_of(frame)), *user_modules()):
        found.setdefault(id(each.value), Holder(each.name, each.frame))
    return found


def _variables_of(frame: FrameType) -> list[Variable]:
    where = frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0
    return [Variable(name, value, where) for name, value in locals_of(frame).items()]


def user_modules() -> Iterator[Variable]:
    """Yield the variables of the user's modules."""
    for module in list(sys.modules.values()):
        # Not all that is there is a module, even if it says so; and a lazy one is left as it is.
        names = object.__getattribute__(module, "__dict__") if issubclass(type(module), ModuleType) else {}
        path = names.get("__file__")
        if isinstance(path, str) and is_user_code(path) and os.path.exists(path):  # that of torch.ops is no path
            for name, value in list(names.items()):
                yield Variable(name, value, ("<module>", path, 0))


def _running_frames() -> list[FrameType]:
    """The frames of all threads, innermost first, without those of the workshop."""
    own: FrameType | None = frame_above(2)
    found = []
    while own is not None:
        found.append(own)
        own = own.f_back
    for thread in threading.enumerate():
        if thread.ident not in (threading.get_ident(), None):
            found += frames_of(thread.ident)
    return [each for each in found if not each.f_globals.get("__name__", "").startswith("workshop.probe")]
