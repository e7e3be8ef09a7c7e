"""Code whose lines are counted in this process: what runs in its place, and what it has counted."""

import sys
from contextlib import suppress
from inspect import CO_OPTIMIZED
from time import monotonic  # the script may replace that of the module
from traceback import walk_stack
from types import CellType, CodeType, FunctionType
from typing import Any

from line_profiler import LineProfiler, LineStats

MONITORING: Any = getattr(sys, "monitoring", None)
"""How Python reports the lines that run, from 3.12 on."""

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""The names of what is a function to Python before 3.12, but not to the person who wrote it."""


class CountedCode:
    """Counts from `begin` to `end`.

    Args:
        only: the names of the functions to be counted, qualified or not; empty for all of them.

    Attributes:
        profiler: that of line_profiler.
        originals: the code that was handed over, by the identity of what is counted in its place.
    """

    def __init__(self, only: tuple[str, ...] = ()) -> None:
        self._only = only
        self.profiler: Any = None
        self.originals: dict[int, CodeType] = {}
        self._codes: list[CodeType] = []

    def begin(self) -> None:
        """Count from zero, also what was counted before."""
        self.end()
        self.profiler = LineProfiler()
        for code in self._codes:
            self.profiler.add_function(_function(code))
        self.profiler.enable()
        if MONITORING:
            # What is raised can only be reported for all code; the rest is asked for where it is counted.
            events = MONITORING.events
            MONITORING.set_events(self.profiler.tool_id, events.RAISE | events.RERAISE)
            for code in self._codes:
                self._count_here(code)

    def end(self) -> None:
        """Count nothing more."""
        if self.profiler:
            self.profiler.disable()

    def counted(self, code: CodeType) -> CodeType:
        """Return code of which the functions inside are counted, and it is itself."""
        inside = [self.counted(value) if isinstance(value, CodeType) else value for value in code.co_consts]
        original, code = code, code.replace(co_consts=tuple(inside))
        if not self._is_wanted(code):
            return code
        function = _function(code)
        self.profiler.add_function(function)
        code = function.__code__
        self._codes.append(code)
        self.originals[id(code)] = original
        self._count_here(code)
        return code

    def stats(self) -> LineStats:
        """What was counted so far; a line that this thread is in the middle of counts as if it ended now."""
        stats, now = self.profiler.get_stats(), int(monotonic() / self.profiler.timer_unit)
        running = {frame.f_code for frame, _ in walk_stack(None)}
        with suppress(KeyError):  # nothing was counted in this thread
            for code, last in self.profiler.last_time.items():
                if code in running:
                    key, number = (code.co_filename, code.co_firstlineno, code.co_qualname), last["f_lineno"]
                    lines = {line: (hits, time) for line, hits, time in stats.timings[key]}
                    hits, time = lines.get(number, (0, 0))
                    lines[number] = hits + 1, time + now - last["time"]
                    stats.timings[key] = sorted((line, *counted) for line, counted in lines.items())
        return stats

    def _is_wanted(self, code: CodeType) -> bool:
        """Whether this is a function or the body of a module; the line of a comprehension has its time anyway."""
        is_function = code.co_flags & CO_OPTIMIZED and code.co_name not in COMPREHENSIONS
        if not self._only:
            return bool(is_function) or code.co_name == "<module>"
        return bool(is_function) and bool({code.co_name, code.co_qualname} & set(self._only))

    def _count_here(self, code: CodeType) -> None:
        """Have Python 3.12 and later report the lines of this code; code that is not counted loses no time then."""
        if MONITORING:
            events = MONITORING.events
            wanted = events.LINE | events.PY_RETURN | events.PY_YIELD
            MONITORING.set_local_events(self.profiler.tool_id, code, wanted)


def _function(code: CodeType) -> FunctionType:
    """Return a function of this code, which is never called: line_profiler asks for one."""
    return FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))
