"""Names who holds an object: the variable, and the way from it, such as `tracker.history[...]`."""

import gc
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

from workshop.probe.internals import locals_of
from workshop.probe.memory.variables import CONTAINERS, classes_of, running_frames, user_modules, variables_of, waits_at
from workshop.probe.observations import WireFrame
from workshop.probe.user_code import is_user_code

MAX_STEPS, MAX_WIDTH = 9, 400
"""Steps from what is held back to a variable, and objects that are looked at in each of them, at most."""

_KEY = re.compile(r"^\['(\w+)'\]")


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
    roots = _variables([*running_frames(), *extra_frames])
    found: list[Holder | None] = [None] * len(objects)
    ways = [_HolderWay(number, each, "") for number, each in enumerate(objects)]
    seen = {(number, id(each)) for number, each in enumerate(objects)}
    waiting: dict[int, Holder] = {}
    for _ in range(MAX_STEPS):
        for way in ways:
            root = roots.get(id(way.value))
            if root and found[way.target] is None:
                found[way.target] = Holder(f"{root.expression}{way.suffix}", root.frame, way.classes, way.limit)
            elif (frame := waits_at(way.value)) is not None:  # a loop has it, and no variable
                waiting.setdefault(way.target, Holder(way.suffix.removeprefix("."), frame, way.classes, way.limit))
        ways = [way for way in ways if found[way.target] is None][:MAX_WIDTH]
        if not ways:
            break
        ways = _one_step_back(ways, seen)
    return [each or waiting.get(number) for number, each in enumerate(found)]


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
    for each in (*(variable for frame in by_whom for variable in variables_of(frame)), *user_modules()):
        found.setdefault(id(each.value), Holder(each.name, each.frame))
    return found
