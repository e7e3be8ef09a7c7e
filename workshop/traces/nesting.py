"""Finds out which events of a thread are inside which others."""

import numpy as np

from workshop.traces.intervals import Ints, Spans, pairs
from workshop.traces.trace import Allocations, EventColumns


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


def at_the_top(events: EventColumns) -> tuple[Ints, Spans]:
    """Return when which event of one thread ran, and none that it called: rows, and disjoint times."""
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
