"""Finds out which events of a thread are inside which others."""

from typing import NamedTuple

import numpy as np

from workshop.profiles.traces.intervals import Ints, pairs
from workshop.profiles.traces.trace import EventColumns

END, START, QUESTION = range(3)
"""What happens at a time, in this order: an operator that ends there is no longer running, one that starts there is."""


class Around(NamedTuple):
    """The operators around some times, by their rows; -1 where the thread ran none."""

    innermost: Ints
    outermost: Ints


def around(ops: EventColumns, op_thread: Ints, ts: Ints, thread: Ints) -> Around:
    """Return the operators that threads were in at some times.

    Args:
        ops: the operators; those of a thread are inside each other or apart.
        op_thread: a number for the thread of each operator.
        ts: the times in ns.
        thread: the number of the thread that each time is of.
    """
    rows = np.flatnonzero(ops.dur > 0)
    kind = np.repeat([START, END, QUESTION], [len(rows), len(rows), len(ts)])
    longest_first = np.concatenate([-ops.dur[rows], np.zeros(len(rows) + len(ts), np.int64)])
    when = np.concatenate([ops.ts[rows], ops.end[rows], ts])
    order = np.lexsort((longest_first, kind, when, np.concatenate([op_thread[rows], op_thread[rows], thread])))
    kind = kind[order]
    depth = np.cumsum((kind == START).astype(np.int64) - (kind == END))
    starts, asked = np.flatnonzero(kind == START), np.flatnonzero(kind == QUESTION)
    # The operator that runs at a depth is the last one that started there; a key sorts by depth and then by position.
    key = depth[starts] * len(order) + starts
    by_key = np.argsort(key, kind="stable")
    key, started = key[by_key], np.append(rows[order[starts]][by_key], -1)
    found = []
    for level in (depth[asked], np.minimum(depth[asked], 1)):
        last = np.searchsorted(key, level * len(order) + asked) - 1
        answers = np.full(len(ts), -1)
        answers[order[asked] - 2 * len(rows)] = np.where(level > 0, started[last], -1)
        found.append(answers)
    return Around(*found)


def inside(outer: EventColumns, inner: EventColumns) -> tuple[Ints, Ints]:
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


def innermost(outer: EventColumns, inner: EventColumns) -> Ints:
    """Return for each inner event the row of the shortest outer event around it, or -1."""
    of_outer, of_inner = inside(outer, inner)
    found = np.full(len(inner), -1)
    order = np.lexsort((outer.ts[of_outer], -outer.dur[of_outer]))  # the shortest is written last
    found[of_inner[order]] = of_outer[order]
    return found


def outermost(events: EventColumns) -> EventColumns:
    """Return those events that are inside none of the others."""
    of_outer, of_inner = inside(events, events)
    # Of two events at the same time, the first in the file is the outer one.
    longer = events.dur[of_outer] > events.dur[of_inner]
    twins = (events.dur[of_outer] == events.dur[of_inner]) & (events.index[of_outer] < events.index[of_inner])
    return events[~np.isin(np.arange(len(events)), of_inner[longer | twins])]
