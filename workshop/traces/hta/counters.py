"""The hardware counters that CUPTI measured for each kernel, with the operators that launched it."""

from typing import Any

import msgspec
import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.decoding import Decoder
from workshop.traces.nesting import inside
from workshop.traces.rewriting import decode_written_events
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
    """Read the arguments of some events, which the columns of a trace do not have, by their `EventColumns.index`."""
    found, count = {}, 0
    for events in Decoder(trace.path, decode_written_events):
        for index in range(count, count + len(events)):
            event = events[index - count]
            if index in wanted:
                args = msgspec.json.decode(event.written).get("args")
                found[index] = args if isinstance(args, dict) else {}
        count += len(events)
    return found
