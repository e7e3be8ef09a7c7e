"""In which place of the user's code each thread was, at any time."""

from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import NamedTuple

import numpy as np

from workshop.traces.between_calls import line_between
from workshop.traces.code_files import CodeFiles
from workshop.traces.code_places import CodePlace, calling_place, function_place
from workshop.traces.event_columns import EventColumns, Stays, at_the_top
from workshop.traces.intervals import Ints, Spans, groups
from workshop.traces.trace import Mask, Trace, once

BACKWARD = r"autograd::engine::evaluate_function"
COMPILED = (
    r"Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction$|"
    r"torch/_functorch/_aot_autograd/runtime_wrappers|torch/_inductor/"
)
"""The names of the annotations, operators and functions inside of which code of torch.compile runs."""


class Stacks(StrEnum):
    """What the stacks of a trace tell."""

    LINES = "lines"
    FUNCTIONS = "functions"
    NONE = "none"


def stacks(trace: Trace) -> Stacks:
    """Return what the stacks of a trace tell: the lines of calls, or only in which functions they are."""
    python = trace.of("python_function")
    if not python.any():
        return Stacks.LINES if any(trace.stacks) else Stacks.NONE
    return Stacks.LINES if (trace.events.stack[python] >= 0).any() else Stacks.FUNCTIONS


class _Top(NamedTuple):
    """In which place a thread was when, and in none that was called there."""

    place: Ints
    spans: Spans


class ThreadPlaces:
    """In which place of the user's code each thread was, at any time.

    A thread is in a line while it calls something, and in a function where the line is not known. In a backward pass it
    is in the line of the forward pass; in one that has none, as for what adds up gradients, it is where the backward
    pass was asked for.

    Attributes:
        numbers: the number of each place.
        top: in which place each thread was when, by its number.
    """

    def __init__(self, trace: Trace) -> None:
        self.numbers = defaultdict[CodePlace, int](count().__next__)
        self.top: dict[int, _Top] = {}
        self._trace, self._stays = trace, Stays(*[np.empty(0, np.int64)] * 4)
        python = trace.events[trace.of("python_function")]
        self._in_python = {thread: python.spans(rows) for thread, rows in groups(trace.threads_of(python))}
        self._add_calls(python if len(python) else trace.events[trace.of("cpu_op")])
        self._main = max(self.top, key=lambda thread: self.top[thread].spans.length, default=-1)
        if stacks(trace) is Stacks.LINES and len(python):
            self._add_between()
        self._add_forward_lines()
        self._add_callers()
        self._add_compiled()

    def of(self, thread: Ints, ts: Ints) -> Ints:
        """Return the number of the place in which each of some threads was at a time, or of why none is known."""
        place = self._known(thread, ts)
        if stacks(self._trace) is Stacks.NONE:
            return np.where(place < 0, self.unknown("none was recorded"), place)
        for number, rows in groups(thread):
            if number in self._in_python:
                rows = rows[(place[rows] < 0) & _inside(self._in_python[number], ts[rows])]
                place[rows] = self.unknown("only libraries called it")
        return np.where(place < 0, self.unknown("nothing of Python called it"), place)

    def unknown(self, why: str) -> int:
        """Return the number of what is in no place, and why."""
        return self.numbers[CodePlace("", 0, note=why)]

    def noted(self, places: Ints, note: str) -> Ints:
        """Return the numbers of some places with a note of what hides the lines in them."""
        known, number = list(self.numbers), {-1: -1}
        for each in np.unique(places[places >= 0]).tolist():
            number[each] = self.numbers[known[each]._replace(note=note)]
        return np.array([number[each] for each in places.tolist()], np.int64)

    def _known(self, thread: Ints, ts: Ints) -> Ints:
        """Return the number of the place in which each of some threads was at a time, or -1."""
        place = np.full(len(ts), -1)
        for number, rows in groups(thread):
            if number in self.top:
                top = self.top[number]
                here = rows[_inside(top.spans, ts[rows])]
                place[here] = top.place[np.searchsorted(top.spans.start, ts[here], "right") - 1]
        return place

    def _add(self, thread: Ints, place: Ints, ts: Ints, dur: Ints) -> None:
        """Add the places in which threads were for some time, but for those that are not known, -1."""
        added = Stays(thread, place, ts, dur)[place >= 0]
        self._stays = Stays(
            *map(np.concatenate, zip(*(vars(each).values() for each in (self._stays, added)), strict=True))
        )
        for number in np.unique(added.thread).tolist():
            here = self._stays[self._stays.thread == number]
            row, spans = at_the_top(here)
            self.top[number] = _Top(here.place[row], spans)

    def _add_events(self, events: EventColumns, place: Ints) -> None:
        """Add the places in which threads were during some events."""
        self._add(self._trace.threads_of(events), place, events.ts, events.dur)

    def _add_calls(self, called: EventColumns) -> None:
        """Add the lines that called something, and inside of these the functions that were called."""
        lines = self._numbered([calling_place(stack) for stack in self._trace.stacks])[called.stack]
        functions = np.full(len(self._trace.names), -1)
        names = np.unique(called.name)
        functions[names] = self._numbered([function_place(self._trace.names[name]) for name in names.tolist()])[:-1]
        both = np.stack([lines, functions[called.name]], axis=1).ravel()
        self._add_events(called[np.repeat(np.arange(len(called)), 2)], both)

    def _add_between(self) -> None:
        """Add the lines of what functions did between two calls, where these tell which line that is."""
        places = [*self.numbers]
        source = CodeFiles(self._trace.path, places).source
        line = np.array([0 if each.function else each.line for each in places] or [0])
        for thread, rows in groups(self._stays.thread):
            here = self._stays[rows]
            row, spans = at_the_top(here)
            between = line[here.place[row]] == 0
            owner, start, end = here[row[between]], spans.start[between], spans.end[between]
            calls = here[line[here.place] > 0]
            calls = calls[np.lexsort((calls.ts, calls.end))]
            before = np.where(start > owner.ts, _at(calls.end, line[calls.place], start), -1)
            calls = calls[np.lexsort((-calls.dur, calls.ts))]
            after = np.where(end < owner.end, _at(calls.ts, line[calls.place], end), -1)
            kinds = [*zip(owner.place.tolist(), before.tolist(), after.tolist(), strict=True)]
            found = {kind: _line_between(places[kind[0]], source, *kind[1:]) for kind in dict.fromkeys(kinds)}
            number = self._numbered([found[kind] for kind in kinds])[:-1]
            self._add(np.full(len(start), thread), number, start, end - start)

    def _numbered(self, places: list[CodePlace | None]) -> Ints:
        """Return the numbers of some places, -1 for none, and one more -1 at the end."""
        return np.array([-1 if each is None else self.numbers[each] for each in [*places, None]], np.int64)

    def _add_forward_lines(self) -> None:
        """Add the operators of backward passes, with the lines of the forward pass."""
        ops = self._trace.events[self._trace.of("cpu_op")]
        ops = ops[(ops.sequence >= 0) & (ops.forward_thread >= 0)]
        # The last operator with the number of a node is the one that made it: the next one has the next number.
        ops = ops[np.argsort(ops.ts, kind="stable")]
        forward, backward = ops[ops.forward_thread == 0], ops[ops.forward_thread > 0]
        thread, place = self._trace.threads_of(forward), np.full(len(backward), -1)
        made_in = [rows for _, rows in groups(thread)]
        for *_, rows in groups(backward.pid, backward.forward_thread):
            # Each thread numbers its nodes from the same on: theirs is the one that has most of these numbers.
            made = [last_with(forward.sequence, each, backward.sequence[rows]) for each in made_in]
            most = max(made, key=lambda each: np.count_nonzero(each >= 0), default=np.full(len(rows), -1))
            place[rows] = np.append(self._known(thread, forward.ts), -1)[most]
        self._add_events(backward, place)

    def _add_callers(self) -> None:
        """Add what backward passes do beside these, with where the thread was that is most in the user's code."""
        events = self._trace.events[self._trace.of("cpu_op") & self._trace.named(BACKWARD)]
        events = events[self._known(self._trace.threads_of(events), events.ts) < 0]
        self._add_events(events, self._known(np.full(len(events), self._main), events.ts))

    def _add_compiled(self) -> None:
        """Add what torch.compile has made: its lines are those that call it."""
        compiled = self._trace.named(COMPILED) & self._trace.of("cpu_op", "user_annotation", "python_function")
        events = self._trace.events[compiled]
        place = self._known(self._trace.threads_of(events), events.ts)
        self._add_events(events, self.noted(place, "a compiled region"))


thread_places = once(ThreadPlaces)
"""Returns in which places the threads of a trace were; it is found once for each trace."""


def _line_between(function: CodePlace, source: Callable[[str], str], before: int, after: int) -> CodePlace | None:
    line = line_between(function, source(function.file), before, after)
    return function._replace(line=line, function="") if line else None


def _inside(spans: Spans, ts: Ints) -> Mask:
    """Return which of some times are in some spans."""
    row = np.searchsorted(spans.start, ts, "right") - 1
    return (row >= 0) & (ts < np.append(spans.end, 0)[row])


def _at(times: Ints, values: Ints, wanted: Ints) -> Ints:
    """Return the value of the first of some ascending times that is equal to a wanted one, or -1."""
    row = np.searchsorted(times, wanted)
    return np.where(np.append(times, -1)[row] == wanted, np.append(values, -1)[row], -1)


def last_with(numbers: Ints, rows: Ints, wanted: Ints) -> Ints:
    """Return the last of some rows that has each of the wanted numbers, or -1."""
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    at = np.searchsorted(numbers[rows], wanted, "right") - 1
    found = np.append(rows, -1)[at]
    return np.where(np.append(numbers, -1)[found] == wanted, found, -1)
