"""The self time of operators, on the CPU and on a device."""

from collections import Counter, defaultdict

import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.trace import Trace


def operators(trace: Trace) -> list[Row]:
    """Return the times of each operator in µs, in descending order of the self time: on a device, if there is one.

    The time of the operators that an operator calls is in its total, and not in its self time. The time of a kernel
    counts for the operator that launched it.
    """
    times: dict[int, dict[str, int]] = defaultdict(Counter)
    launched = _device_time(trace)
    events = trace.events
    ops, launches = trace.of("cpu_op"), np.isin(events.index, list(launched))
    rows = np.flatnonzero(ops | launches)
    # Sorted by thread, and an event before those inside it.
    rows = rows[np.lexsort((-events.dur[rows], events.ts[rows], trace.thread[rows]))]
    stack: list[tuple[int, int, int]] = []  # name, thread, end
    columns = (events.index, events.name, trace.thread, events.ts, events.end, ops)
    for index, name, thread, ts, end, is_op in zip(*(column[rows].tolist() for column in columns), strict=True):
        while stack and (stack[-1][1] != thread or stack[-1][2] <= ts):
            stack.pop()
        if is_op:
            found = times[name]
            found["count"] += 1
            found["self"] += end - ts
            if stack:
                times[stack[-1][0]]["self"] -= end - ts
            if all(above[0] != name for above in stack):
                found["total"] += end - ts
            stack.append((name, thread, end))
        elif stack:
            times[stack[-1][0]]["device"] += launched[index]
    table = [
        {"name": trace.names[name], "count": found["count"]}
        | {f"{each}_cpu(us)": found[each] / 1000 for each in ("self", "total")}
        | {"self_device(us)": found["device"] / 1000}
        for name, found in times.items()
    ]
    by = "self_device(us)" if launched else "self_cpu(us)"
    return sorted(table, key=lambda row: (-row[by], -row["self_cpu(us)"], row["name"]))


def _device_time(trace: Trace) -> dict[int, int]:
    """Return the time on a device in ns, by the `index` of the launching call."""
    calls, found = trace.launches
    sums: Counter[int] = Counter()
    there = found >= 0
    for index, dur in zip(calls.index[found[there]].tolist(), trace.gpu.dur[there].tolist(), strict=True):
        sums[index] += dur
    return sums
