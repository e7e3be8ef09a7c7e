"""The hardware counters that CUPTI measured for each kernel, with the operators that launched it."""

from typing import Any

import msgspec
import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.nesting import inside
from workshop.traces.rewriting import written_events
from workshop.traces.trace import Trace

CATEGORY = "cuda_profiler_range"
LAUNCH = r"cudaLaunchKernel"


def counter_rows(trace: Trace, begin: int = 0) -> list[Row] | None:
    """Return a row for each measured kernel: its name, the operators around its launch, and each counter by its name.

    The measurements have no correlation, so they belong to the launches in the order of time; None is returned if
    there are more of one than of the other, or none at all. Times are in µs since a beginning in ns.
    """
    measured = trace.events[trace.of(CATEGORY)]
    launches = trace.events[trace.of("cuda_runtime") & trace.named(LAUNCH)]
    if not len(measured) or len(measured) != len(launches):
        return None
    measured, launches = (each[np.argsort(each.ts, kind="stable")] for each in (measured, launches))
    ops = trace.events[trace.of("cpu_op")]
    ops = ops[np.lexsort((-ops.dur, ops.ts))]  # so that an operator is before those inside it
    stacks: list[list[str]] = [[] for _ in range(len(launches))]
    for op, launch in zip(*(column.tolist() for column in inside(ops, launches)), strict=True):
        stacks[launch].append(trace.names[ops.name[op]])
    args = _args(trace, {*measured.index.tolist()})
    return [
        {
            "index": index,
            "ts": (ts - begin) / 1000,
            "dur": dur / 1000,
            "name": trace.names[name],
            "op_stack": stack,
            "top_level_op": stack[0] if stack else "",
            "bottom_level_op": stack[-1] if stack else "",
        }
        | args.get(index, {})
        for index, ts, dur, name, stack in zip(
            *(column.tolist() for column in (measured.index, measured.ts, measured.dur, measured.name)),
            stacks,
            strict=True,
        )
    ]


def _args(trace: Trace, wanted: set[int]) -> dict[int, dict[str, Any]]:
    """Return the arguments of some events by their `EventColumns.index`."""
    written = written_events(trace.path, wanted)
    args = {index: msgspec.json.decode(event.written).get("args") for index, event in written.items()}
    return {index: each for index, each in args.items() if isinstance(each, dict)}
