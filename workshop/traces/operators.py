"""The self time of operators, on the CPU and on a device."""

import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.nesting import at_the_top
from workshop.traces.trace import Trace


def operators(trace: Trace) -> list[Row]:
    """Return the times of each operator in µs, in descending order of the self time: on a device, if there is one.

    The time of the operators that an operator calls is in its total, and not in its self time. The time of a kernel
    counts for the operator that launched it.
    """
    is_op, names = trace.of("cpu_op"), len(trace.names)
    count, self_time, total, on_device = np.zeros((4, names), np.int64)
    calls, launched = trace.launched
    for thread in np.unique(trace.thread[is_op]):
        ops = trace.events[is_op & (trace.thread == thread)]
        row, spans = at_the_top(ops)
        np.add.at(count, ops.name, 1)
        np.add.at(self_time, ops.name[row], spans.end - spans.start)
        for name in np.unique(ops.name):
            total[name] += ops.spans(ops.name == name).length
        mine = np.flatnonzero((calls.pid == ops.pid[0]) & (calls.tid == ops.tid[0]))
        at = np.searchsorted(spans.start, calls.ts[mine], "right") - 1
        inside = (at >= 0) & (calls.ts[mine] < np.append(spans.end, 0)[at])
        np.add.at(on_device, ops.name[row[at[inside]]], launched.dur[mine[inside]])
    table = [
        {
            "name": trace.names[name],
            "count": int(count[name]),
            "self_cpu(us)": int(self_time[name]) / 1000,
            "total_cpu(us)": int(total[name]) / 1000,
            "self_device(us)": int(on_device[name]) / 1000,
        }
        for name in np.flatnonzero(count)
    ]
    by = "self_device(us)" if len(launched) else "self_cpu(us)"
    return sorted(table, key=lambda row: (-row[by], -row["self_cpu(us)"], row["name"]))
