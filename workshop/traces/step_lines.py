"""What each line of the user's code takes in profiled steps, phase by phase: on the host and on the device.

A kernel counts to the phase in which it was launched. A line in which the host waits for the device is told apart from
one that has something to do: it waits for a result, or for room in the queue of launches. What it waits for is what the
device does meanwhile.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from workshop.probe.phases import MARK, STEP_END, Phase
from workshop.profiles.stacks import Frame
from workshop.traces.by_line import work_of
from workshop.traces.code_places import CodePlace
from workshop.traces.event_columns import EventColumns, Stays, at_the_top
from workshop.traces.intervals import Columns, Ints, Spans, groups, meetings, overlap, sums, union, without
from workshop.traces.thread_places import BACKWARD, thread_places
from workshop.traces.trace import LAUNCH, Mask, Trace, matching

SYNCHRONIZE, COPIES, LAUNCHES = r"(cuda|cu|hip)\w*Synchronize", r"(cuda|cu|hip)Mem(cpy|set)", r"(cuda|cu|hip)\w*Launch"
"""The calls that wait for the device, those that may wait for their result, and those that may wait for room."""

FULL_QUEUE = 1000
"""Launches, at least, that a device is behind where a call waits for room in its queue, which has 1024 of CUDA."""

PHASES = tuple(Phase)


class LinePart(NamedTuple):
    """What a line takes in a phase of the steps, in seconds a step."""

    place: CodePlace
    phase: Phase
    host_s: float
    """The time in which a thread was in this line, and in no other that it called, and did not wait for the device."""
    device_s: float
    """The time of what a device did, or else of the operators themselves."""
    alone_s: float
    """The part of the host's time in which the device did nothing."""
    result_s: float
    """The time in which the host waited for a result of the device."""
    queue_s: float
    """The time in which the host waited for room in the queue of launches."""
    launches: float
    """How much the device was asked for, or else how many operators ran."""
    results: float
    """How many calls waited for a result, whether or not the device still had something to do."""
    waits_for: CodePlace | None
    """The line that had asked for most of what the device did while this one waited."""

    @property
    def frame(self) -> Frame:
        """The line as a frame of a stack."""
        return Frame(self.place.function, self.place.file, self.place.line)


@dataclass(frozen=True)
class _Stretches(Columns):
    """A row for each piece of time, with a number."""

    number: Ints
    start: Ints
    end: Ints

    @property
    def spans(self) -> Spans:
        """The times alone."""
        return Spans(self.start, self.end)

    def within(self, spans: Spans) -> "_Stretches":
        """Return what of it is in some time."""
        found = meetings(self.spans, spans)
        return _Stretches(self.number[found.one], found.start, found.end)

    def sums(self, numbers: int) -> Ints:
        """Return the sum of the time of each number."""
        return sums(self.number, self.end - self.start, numbers)


NOTHING = _Stretches(*[np.empty(0, np.int64)] * 3)


def _joined(parts: Iterable[_Stretches]) -> _Stretches:
    return _Stretches(*map(np.concatenate, zip(*(vars(each).values() for each in (NOTHING, *parts)), strict=True)))


def line_parts(trace: Trace) -> list[LinePart]:
    """Return what each line takes in each phase of the steps between the first and the last mark of a step's end."""
    marks = np.sort(trace.events[trace.of("user_annotation") & trace.named(STEP_END)].ts)
    if len(marks) < 2:
        return []
    return _Parts(trace, marks[0], marks[-1]).found(len(marks) - 1)


class _Parts:
    """Adds up times by place and by phase: the number of a pair is that of its place times the phases, and its phase.

    Args:
        trace: a trace with marks of phases.
        began: when its steps began, in ns.
        ended: when they ended.
    """

    def __init__(self, trace: Trace, began: int, ended: int) -> None:
        self._trace, self._threads = trace, thread_places(trace)
        work = work_of(trace)
        asked = (began <= work.asked) & (work.asked < ended)
        self._phases = _phases(trace, began, ended)
        self._work = _Stretches(work.place, work.start, work.end)[asked]
        self._busy = union(self._work.start, self._work.end)
        self._of_work = self._pairs(self._work.number, work.asked[asked])
        self._calls = _calls(trace, began, ended)

    def found(self, steps: int) -> list[LinePart]:
        """Return the parts of a step."""
        result, queue, host = self._results(), self._full_queue(), self._host()
        known = [*self._threads.numbers]
        numbers = len(known) * len(PHASES)
        waits = [each.within(self._busy).sums(numbers) for each in (result, queue)]
        columns = {
            "host_s": np.maximum(host.sums(numbers) - sum(waits), 0),
            "device_s": sums(self._of_work, self._work.end - self._work.start, numbers),
            "alone_s": host.within(without(self._phases.spans, self._busy)).sums(numbers),
            "result_s": waits[0],
            "queue_s": waits[1],
            "launches": np.bincount(self._of_work, minlength=numbers) * 10**9,
            "results": np.bincount(result.number, minlength=numbers) * 10**9,
        }
        waits_for = self._waits_for(_joined([result, queue]))
        return [
            LinePart(
                place=known[row // len(PHASES)],
                phase=PHASES[row % len(PHASES)],
                waits_for=known[waits_for[row]] if row in waits_for else None,
                **{name: column[row].item() / 1e9 / steps for name, column in columns.items()},
            )
            for row in np.flatnonzero(np.any([*columns.values()], axis=0)).tolist()
        ]

    def _pairs(self, place: Ints, ts: Ints) -> Ints:
        """Return the numbers of places at some times."""
        row = np.searchsorted(self._phases.start, ts, "right") - 1
        return place * len(PHASES) + self._phases.number[np.clip(row, 0, None)]

    def _host(self) -> _Stretches:
        """Return where the training was when: in its thread or, while that waits for one of a backward pass, there."""
        trace, top = self._trace, self._threads.top
        ops = trace.events[trace.of("cpu_op")]
        passes = ops[(ops.forward_thread > 0) | trace.named(BACKWARD)[trace.of("cpu_op")]]
        marks = trace.events[trace.of("user_annotation") & trace.named(STEP_END)]
        (main,) = np.unique(trace.threads_of(marks))[:1].tolist()
        others = {thread: passes.spans(rows) for thread, rows in groups(trace.threads_of(passes)) if thread != main}
        found = []
        for thread in {main, *others} & top.keys():
            inside = self._phases.spans
            if thread == main and others:
                inside = without(inside, union(*map(np.concatenate, zip(*others.values(), strict=True))))
            here = _Stretches(top[thread].place, *top[thread].spans).within(inside).within(self._phases.spans)
            found.append(replace(here, number=self._pairs(here.number, here.start)))
        return _joined(found)

    # Waits

    def _results(self) -> _Stretches:
        """Return the calls that wait for a result."""
        return self._of_calls(self._calls[self._for_result], 0)

    def _full_queue(self) -> _Stretches:
        """Return the others that ask for something while the device is far behind, but for what they take themselves.

        That is the median of those of the same name in which it is not; one that waits takes at least twice as long.
        """
        launched, run = self._trace.launched
        _, first, number = np.unique(launched.index, return_index=True, return_inverse=True)
        asked, over = launched.ts[first], np.zeros(len(first), np.int64)
        np.maximum.at(over, number, run.end)  # a replayed graph is one launch of many kernels
        before = [np.searchsorted(np.sort(times), self._calls.ts) for times in (asked, over)]
        is_full = before[0] - before[1] >= FULL_QUEUE
        asks = matching(self._trace.names, f"{LAUNCHES}|{COPIES}")[self._calls.name] & ~self._for_result
        usual, calls = np.zeros(len(self._trace.names), np.int64), self._calls
        for name, rows in groups(calls.name[asks & ~is_full]):
            usual[name] = np.median(calls.dur[asks & ~is_full][rows])
        waits = calls[asks & is_full & (calls.dur >= 2 * usual[calls.name])]
        return self._of_calls(waits, usual[waits.name])

    @cached_property
    def _for_result(self) -> Mask:
        """Which calls wait for a result: a copy does if it has begun before its call is over."""
        launched, run = self._trace.launched
        of_copy = matching(self._trace.names, COPIES)[launched.name] & (run.ts < launched.end)
        synchronizes = matching(self._trace.names, SYNCHRONIZE)[self._calls.name]
        return np.asarray(synchronizes | np.isin(self._calls.index, launched.index[of_copy]))

    def _of_calls(self, calls: EventColumns, usual: Ints | int) -> _Stretches:
        place = self._threads.of(self._trace.threads_of(calls), calls.ts)
        return _Stretches(self._pairs(place, calls.ts), calls.ts + usual, calls.end)

    def _waits_for(self, waits: _Stretches) -> dict[int, int]:
        """Return the place, of each pair that waits, that has asked for most of what the device did meanwhile."""
        waits = waits[np.argsort(waits.start, kind="stable")]
        found, places = meetings(self._work.spans, waits.spans), len(self._threads.numbers)
        kinds, which = np.unique(waits.number[found.other] * places + self._work.number[found.one], return_inverse=True)
        time = sums(which, found.end - found.start, len(kinds))
        return {kind // places: kind % places for kind in kinds[np.argsort(time, kind="stable")].tolist()}


def _phases(trace: Trace, began: int, ended: int) -> _Stretches:
    """Return which phase the training was in when, from the first mark to the last, without a gap."""
    marks = trace.events[trace.of("user_annotation") & trace.named(MARK)]
    number = {f"{MARK}{phase}": row for row, phase in enumerate(PHASES)}
    phase = np.array([number.get(trace.names[name], PHASES.index(Phase.OTHER)) for name in marks.name], np.int64)
    nothing = np.zeros(len(marks), np.int64)
    row, spans = at_the_top(Stays(nothing, phase, marks.ts, marks.dur))
    inside = overlap(spans, Spans(np.array([began]), np.array([ended])))
    of_each = phase[row[np.searchsorted(spans.start, inside.start, "right") - 1]] if len(inside.start) else nothing[:0]
    gaps = without(Spans(np.array([began]), np.array([ended])), inside)
    between = np.full(len(gaps.start), PHASES.index(Phase.OTHER))
    start, end = (np.concatenate(each) for each in zip(inside, gaps, strict=True))
    order = np.argsort(start, kind="stable")
    return _Stretches(np.concatenate([of_each, between])[order], start[order], end[order])


def _calls(trace: Trace, began: int, ended: int) -> EventColumns:
    """Return the calls of the runtime, without those that another one has made, such as the driver's."""
    calls = trace.events[trace.of(*LAUNCH)]
    calls = calls[(began <= calls.ts) & (calls.ts < ended)]
    calls = calls[np.lexsort((-calls.dur, calls.ts))]
    first = np.ones(len(calls), bool)
    for _, rows in groups(trace.threads_of(calls)):
        latest = np.maximum.accumulate(calls.end[rows])
        first[rows[1:]] = calls.ts[rows[1:]] >= latest[:-1]
    return calls[first]
