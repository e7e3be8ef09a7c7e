"""The CUDA graphs that were recorded while a trace was made, in which lines, and for how long."""

from typing import NamedTuple

import numpy as np

from workshop.traces.code_places import CodePlace
from workshop.traces.intervals import Ints, groups
from workshop.traces.thread_places import thread_places
from workshop.traces.trace import LAUNCH, Trace, matching

BEGINS, MAKES = r"(cuda|cu|hip)StreamBeginCapture", r"(cuda|cu|hip)GraphInstantiate"
"""The calls with which a recording begins, and that make a graph of it."""


class RecordedGraphs(NamedTuple):
    """The graphs that were recorded: columns of equal length, but for the last."""

    start: Ints
    """When the recording began, in ns."""
    end: Ints
    """When the graph was made."""
    most_in: CodePlace | None
    """The place in which most were; None if there are none."""


def recorded_graphs(trace: Trace) -> RecordedGraphs:
    """Return the graphs that were recorded; one of which the beginning is not in the trace begins when it is made."""
    calls, threads = trace.events[trace.of(*LAUNCH)], thread_places(trace)
    begins, makes = (calls[matching(trace.names, names)[calls.name]] for names in (BEGINS, MAKES))
    makes = makes[np.argsort(makes.ts, kind="stable")]
    # A call of the driver within one of the runtime makes no other graph.
    makes = makes[makes.ts >= np.maximum.accumulate(np.append(0, makes.end)[:-1])]
    start, thread = makes.ts.copy(), trace.threads_of(makes)
    for number, rows in groups(thread):
        began = np.sort(begins.ts[trace.threads_of(begins) == number])
        before = np.searchsorted(began, makes.ts[rows]) - np.searchsorted(began, np.append(-1, makes.ts[rows])[:-1])
        last = np.searchsorted(began, makes.ts[rows]) - 1
        start[rows[before > 0]] = began[last[before > 0]]
    place, count = np.unique(threads.of(thread, makes.ts), return_counts=True)
    most_in = [*threads.numbers][place[count.argmax()]] if len(makes) else None
    return RecordedGraphs(start, makes.end, most_in)
