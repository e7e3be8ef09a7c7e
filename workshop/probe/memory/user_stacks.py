"""The stacks of user code on which tensors are allocated, numbered."""

from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from workshop.probe.internals import frame_above
from workshop.probe.observations import WireFrame
from workshop.probe.stack_sampler import line_of
from workshop.probe.user_code import is_user_code

UserCall = tuple[CodeType, int]


class UserStacks:
    """Gives each stack of user code a number, as fast as that can be done in Python."""

    def __init__(self) -> None:
        self._is_users: dict[CodeType, bool] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._new: list[tuple[object, ...]] = []
        self._keys: list[tuple[object, ...]] = []

    def here(self, skipped: int = 0) -> int:
        """Return the number of the caller's stack, or of one that has called it."""
        frame: FrameType | None = frame_above(skipped + 1)
        is_users, found = self._is_users, list[object]()
        while frame is not None:
            code = frame.f_code
            is_one = is_users.get(code)
            if is_one is None:
                is_one = is_users[code] = is_user_code(code.co_filename)
            if is_one:
                found.append(code)
                found.append(frame.f_lasti)
            frame = frame.f_back
        return self._number(tuple(found))

    def _number(self, key: tuple[object, ...]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new.append(key)
            self._keys.append(key)
        return number

    def calls(self, number: int) -> list[UserCall]:
        """Return the calls of a stack, outermost first: each a function and the instruction that it has reached."""
        key: Any = self._keys[number] if number >= 0 else ()
        return list(zip(key[-2::-2], key[::-2], strict=True))

    def of_calls(self, calls: Sequence[UserCall]) -> int:
        """Return the number of a stack of such calls."""
        return self._number(tuple(each for call in reversed(calls) for each in call))

    def take_new(self) -> tuple[tuple[WireFrame, ...], ...]:
        """Return the stacks that were not returned before, in the order of their numbers, outermost frame first."""
        new, self._new = self._new, []
        return tuple(tuple(reversed(list(_frames(key)))) for key in new)


def _frames(key: tuple[object, ...]) -> list[WireFrame]:
    pairs = zip(key[::2], key[1::2], strict=True)
    return [
        (code.co_name, code.co_filename, line_of(code, instruction))
        for code, instruction in pairs
        if isinstance(code, CodeType) and isinstance(instruction, int)
    ]
