"""Which kernels operators launch: their sequences, how long each waits for its begin, and what CUPTI measured of it."""

from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.event_columns import innermost, inside, outermost
from workshop.traces.intervals import Ints, groups
from workshop.traces.rewriting import written_events
from workshop.traces.trace import KERNEL, Trace

COLUMNS = "aten_op_name kernel_sequence occurrence_count avg_aten_op_launch_delay avg_runtime_delay".split()


class Sequence(NamedTuple):
    """Events on a device that an operator launches each time it is called, or at least several times."""

    names: tuple[str, ...]
    """The operator, and then what it launches, in the order of the begin on the device."""
    occurrences: int
    device: int
    """The sum of the time on the device, in ns."""
    cpu: int
    """The sum of the time of the operator, in ns."""
    operators: Ints
    """The `EventColumns.index` of the operators."""


def frequent(trace: Trace, operator: str, least: int = 1) -> list[Sequence]:
    """Return what the operators launch whose name contains a text, the most frequent sequence first.

    Of operators inside each other, the outermost counts. One that launches less than `least` events is left out.
    """
    names = np.array([operator in name for name in trace.names] or [False])
    ops = outermost(trace.events[names[trace.events.name] & ~trace.on_gpu])
    calls, gpu = trace.launched
    op, event = inside(ops, calls)
    order = np.lexsort((gpu.ts[event], op))
    op, event = op[order], event[order]
    rows = defaultdict(list)
    for row, here in groups(op):
        launched = event[here]
        if len(launched) >= least:
            rows[ops.name[row], *gpu.name[launched].tolist()].append((row, launched))
    sequences = [
        Sequence(
            tuple(trace.names[name] for name in key),
            len(each),
            sum(int(gpu.dur[launched].sum()) for _, launched in each),
            int(ops.dur[[row for row, _ in each]].sum()),
            ops.index[[row for row, _ in each]],
        )
        for key, each in rows.items()
    ]
    return sorted(sequences, key=lambda sequence: (-sequence.occurrences, "|".join(sequence.names)))


def events_in(trace: Trace, sequence: Sequence) -> Ints:
    """Return the `EventColumns.index` of the operators of a sequence, of what they call, and of what they launch."""
    ops = trace.events[np.isin(trace.events.index, sequence.operators)]
    called = trace.events.index[inside(ops, trace.events)[1]]
    calls, gpu = trace.launched
    return np.union1d(called, gpu.index[np.isin(calls.index, called)])


def kernels_of_operators(trace: Trace) -> list[Row]:
    """Return the sequences of kernels that each ATen operator launches itself, the most frequent first.

    The first launch of an operator is late by the time from its begin to the launching call, and its kernel by the
    time from there to the begin on the device; the means over all occurrences are in µs.
    """
    calls, gpu = trace.launched
    is_kernel = np.isin(gpu.index, trace.events.index[trace.of(*KERNEL)])
    calls, gpu = calls[is_kernel], gpu[is_kernel]
    ops = trace.events[trace.named("aten::")]
    op = innermost(ops, calls)
    order = np.lexsort((calls.ts, op))
    order = order[op[order] >= 0]
    occurrences = defaultdict(list)
    for row, here in groups(op[order]):
        events = order[here]
        occurrences[ops.name[row], *gpu.name[events].tolist()].append((row, events[0]))
    rows: list[Row] = []
    for (name, *kernels), each in occurrences.items():
        row, first = np.array(each).T
        values = (
            trace.names[name],
            " -> ".join(trace.names[kernel] for kernel in kernels),
            len(each),
            float((calls.ts[first] - ops.ts[row]).mean()) / 1000,
            float((gpu.ts[first] - calls.ts[first]).mean()) / 1000,
        )
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return sorted(rows, key=lambda row: (-row["occurrence_count"], row["aten_op_name"], row["kernel_sequence"]))


def counter_rows(trace: Trace, begin: int = 0) -> list[Row] | None:
    """Return a row for each measured kernel: its name, the operators around its launch, and each counter by its name.

    The measurements have no correlation, so they belong to the launches in the order of time; None is returned if
    there are more of one than of the other, or none at all. Times are in µs since a beginning in ns.
    """
    measured = trace.events[trace.of("cuda_profiler_range")]
    launches = trace.events[trace.of("cuda_runtime") & trace.named("cudaLaunchKernel")]
    if not len(measured) or len(measured) != len(launches):
        return None
    measured, launches = (each[np.argsort(each.ts, kind="stable")] for each in (measured, launches))
    ops = trace.events[trace.of("cpu_op")]
    ops = ops[np.lexsort((-ops.dur, ops.ts))]  # so that an operator is before those inside it
    stacks: list[list[str]] = [[] for _ in range(len(launches))]
    for op, launch in zip(*(column.tolist() for column in inside(ops, launches)), strict=True):
        stacks[launch].append(trace.names[ops.name[op]])
    args = _args_of(trace, {*measured.index.tolist()})
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


def _args_of(trace: Trace, wanted: set[int]) -> dict[int, dict[str, Any]]:
    """Return the arguments of some events by their `EventColumns.index`."""
    written = written_events(trace.path, wanted)
    args = {index: msgspec.json.decode(event.written).get("args") for index, event in written.items()}
    return {index: each for index, each in args.items() if isinstance(each, dict)}
