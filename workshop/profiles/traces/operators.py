"""Operators by the time that they took themselves, on the CPU and on a device."""

from collections import Counter, defaultdict

import numpy as np

from workshop.profiles.traces.breakdown import Row, find_calls
from workshop.profiles.traces.trace import Trace


def operators(trace: Trace) -> list[Row]:
    """One row for each operator, times in µs. First the one with the most time of its own, on a device if there is one.

    What an operator called is in its total and not in its self time; a device's time goes to the operator that launched
    the kernel.
    """
    times: dict[int, dict[str, int]] = defaultdict(Counter)
    launched = _device_time(trace)
    events = trace.events
    ops, launches = trace.of("cpu_op"), np.isin(events.index, list(launched))
    rows = np.flatnonzero(ops | launches)
    # By thread, and what contains before what is contained.
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
    """Time on a device, in ns, by the `index` of the call that launched them."""
    calls, found = find_calls(trace)
    sums: dict[int, int] = Counter()
    there = found >= 0
    for index, dur in zip(calls.index[found[there]].tolist(), trace.gpu.dur[there].tolist(), strict=True):
        sums[index] += dur
    return sums
