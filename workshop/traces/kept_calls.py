"""Adds the lines of calls to a trace of an older torch, which does not write them, from a file that is kept beside it.

The file has the time in ns of each call, and the file and the line that it came from. Its clock is not that of the
trace: both have the mark at which the first step begins.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from workshop.probe.phases import STEP_END
from workshop.traces.trace import Trace


def with_calls(trace: Trace, path: Path) -> Trace:
    """Return a trace with the lines of the calls in a file."""
    calls = json.loads(path.read_text(encoding="utf-8"))
    marks = trace.events.ts[trace.of("user_annotation") & trace.named(STEP_END)]
    began = [ts for ts, file, _ in calls if file == STEP_END]
    places = [f"{file}:{line}" for _, file, line in calls]
    if not len(marks) or not began:
        return trace
    ts = np.array([each[0] for each in calls], np.int64) + (marks.min() - min(began))
    number = {place: row for row, place in enumerate(dict.fromkeys(places), start=len(trace.stacks))}
    stack, python = trace.events.stack.copy(), np.flatnonzero(trace.of("python_function"))
    row = np.searchsorted(ts, trace.events.ts[python])
    is_there = np.append(ts, -1)[row] == trace.events.ts[python]
    stack[python[is_there]] = np.array([number[each] for each in places])[row[is_there]]
    return replace(trace, events=replace(trace.events, stack=stack), stacks=(*trace.stacks, *number))
