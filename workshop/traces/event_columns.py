"""The events of a trace as columns, and which events of a thread are inside which others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.traces.intervals import Columns, Ints, Spans, pairs, union


@dataclass(frozen=True)
class EventColumns(Columns):
    """A row for each event that lasts; times are in ns by the clock of the file, -1 is not known.

    `name` and `cat` are indices in `Trace.names` and `Trace.cats`.
    """

    index: Ints
    """The position among all events of the file, from 0."""
    name: Ints
    cat: Ints
    pid: Ints
    """A number for each process, which is not its PID."""
    tid: Ints
    """A number for each thread, which is not its ID in the system."""
    stream: Ints
    correlation: Ints
    """A number that a launch shares with the event that it launched, or -1."""
    device: Ints
    bytes: Ints
    """The number of bytes that were copied or set."""
    waits_on: Ints
    """For a synchronisation: the correlation of the call that recorded the CUDA event it waits for, or -1."""
    waits_on_stream: Ints
    """For a synchronisation: the stream it waits for, or -1."""
    external: Ints
    """A number that an operator may share with what it launched, or -1."""
    sequence: Ints
    """For an operator: the number of the node of the graph that it made, or whose backward pass it is; or -1."""
    forward_thread: Ints
    """For an operator of a backward pass: a number from 1 of the thread of its forward pass; else 0, or -1."""
    stack: Ints
    """For an operator or a call: the index in `Trace.stacks` of where it was called, or -1."""
    bandwidth: NDArray[np.float64]
    """For a copy or set: GB/s as the profiler wrote it, or -1."""
    ts: Ints
    dur: Ints

    @property
    def end(self) -> Ints:
        """The end in ns."""
        return self.ts + self.dur

    def spans(self, rows: Any = slice(None)) -> Spans:
        """Return the time that at least one of some events covers."""
        return union(self.ts[rows], self.ts[rows] + self.dur[rows])


@dataclass(frozen=True)
class Stays(Columns):
    """A row for each time in which a thread is somewhere, such as in a line of code; inside of it may be others."""

    thread: Ints
    place: Ints
    ts: Ints
    dur: Ints

    @property
    def end(self) -> Ints:
        """The end in ns."""
        return self.ts + self.dur


@dataclass(frozen=True)
class Allocations(Columns):
    """A row for each allocation and each release of memory, in the order of time.

    `pid`, `tid` and `ts` are as in `EventColumns`.
    """

    pid: Ints
    tid: Ints
    address: Ints
    size: Ints
    """The number of bytes; negative for a release."""
    allocated: Ints
    """The bytes of the device that are in use from now on, as its allocator counts them; 0 if it does not count."""
    reserved: Ints
    """The bytes that the allocator has taken from the device, whether they are in use or not."""
    device_type: Ints
    """A number of torch's: 0 is a CPU, 1 is CUDA."""
    device_id: Ints
    """The number of the device among those of its type, or -1 for a CPU."""
    ts: Ints

    @property
    def end(self) -> Ints:
        """The end of the nanosecond: what ends at `ts` is over by then."""
        return self.ts + 1


def inside(outer: EventColumns, inner: EventColumns | Allocations) -> tuple[Ints, Ints]:
    """Return each pair of an outer event and one of the same thread that lasts no longer: two columns of rows.

    The pairs are sorted by the row of the outer event, and then by the start of the inner one.
    """
    # The place of a time among all times makes one number of a thread and a time, without an overflow.
    times, place = np.unique(np.concatenate([outer.ts, outer.end, inner.ts]), return_inverse=True)
    start, end, inner_start = np.split(place, [len(outer), 2 * len(outer)])
    threads = int(max(outer.tid.max(initial=0), inner.tid.max(initial=0))) + 1
    outer_thread, inner_thread = ((each.pid * threads + each.tid) * len(times) for each in (outer, inner))
    order = np.argsort(inner_thread + inner_start, kind="stable")
    key = (inner_thread + inner_start)[order]
    first, behind = np.searchsorted(key, outer_thread + start), np.searchsorted(key, outer_thread + end, "right")
    of_outer, of_inner = pairs(first, behind)
    of_inner = order[of_inner]
    whole = inner.end[of_inner] <= outer.end[of_outer]
    return of_outer[whole], of_inner[whole]


def around(outer: EventColumns, inner: EventColumns | Allocations) -> tuple[Ints, Ints]:
    """Return for each inner event the rows of the shortest and the longest outer event around it, or -1."""
    of_outer, of_inner = inside(outer, inner)
    shortest, longest = np.full(len(inner), -1), np.full(len(inner.ts), -1)
    order = np.lexsort((outer.ts[of_outer], -outer.dur[of_outer]))  # what is written last remains
    shortest[of_inner[order]] = of_outer[order]
    order = order[::-1]
    longest[of_inner[order]] = of_outer[order]
    return shortest, longest


def innermost(outer: EventColumns, inner: EventColumns | Allocations) -> Ints:
    """Return for each inner event the row of the shortest outer event around it, or -1."""
    return around(outer, inner)[0]


def outermost(events: EventColumns) -> EventColumns:
    """Return those events that are inside none of the others."""
    of_outer, of_inner = inside(events, events)
    # Of two events at the same time, the first in the file is the outer one.
    longer = events.dur[of_outer] > events.dur[of_inner]
    twins = (events.dur[of_outer] == events.dur[of_inner]) & (events.index[of_outer] < events.index[of_inner])
    return events[~np.isin(np.arange(len(events)), of_inner[longer | twins])]


def at_the_top(events: EventColumns | Stays) -> tuple[Ints, Spans]:
    """Return when which event of one thread ran, and none that it called: rows, and disjoint times.

    Of two events at the same time, the second one is inside the first.
    """
    order = np.lexsort((-events.dur, events.ts))
    start, end = events.ts[order], events.end[order]
    edges = np.sort(np.concatenate([start, end]))
    latest = _latest(np.searchsorted(edges, start), np.searchsorted(edges, end), len(edges))
    border = np.flatnonzero(np.diff(latest, prepend=-1))
    running = latest[border] >= 0  # nothing runs after the last border
    spans = Spans(edges[border[running]], edges[border[np.flatnonzero(running) + 1]])
    return order[latest[border[running]]], spans


def _latest(first: Ints, behind: Ints, cells: int) -> Ints:
    """Return for each cell the last of the ranges of cells that cover it, or -1.

    Two overlapping blocks of cells make up a range, whose length is a power of 2, and two blocks make up one that is
    twice as long. So blocks are halved, from the longest to single cells.
    """
    latest = np.full(cells, -1)
    power = np.frexp(behind - first)[1] - 1  # -1 of an empty range
    for size in range(int(power.max(initial=-1)), -1, -1):
        half = 1 << size
        latest[half:] = np.maximum(latest[half:], latest[:-half])
        here = np.flatnonzero(power == size)
        np.maximum.at(latest, first[here], here)
        np.maximum.at(latest, behind[here] - half, here)
    return latest
