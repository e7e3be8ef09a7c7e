"""Finds the operators that a thread was in at given times."""

from typing import NamedTuple

import numpy as np

from workshop.profiles.traces.intervals import Ints
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
