"""The time of annotations, on the CPU and on a device: of `record_function`, of NVTX ranges, and the profiler's own."""

from typing import NamedTuple

import numpy as np

from workshop.traces.breakdown import Row, time_statistics
from workshop.traces.event_columns import EventColumns, innermost, inside
from workshop.traces.intervals import Ints, groups, pairs
from workshop.traces.trace import Trace, matching

ON_CPU = "user_annotation"
ON_GPU = "gpu_user_annotation"
STEP = "ProfilerStep"


class Annotated(NamedTuple):
    """Times of annotations: columns of equal length."""

    name: Ints
    dur: Ints


def on_cpu(trace: Trace) -> Annotated:
    """Return how long the CPU was in each annotation."""
    events = trace.events[trace.of(ON_CPU)]
    return Annotated(events.name, events.dur)


def on_gpu(trace: Trace) -> Annotated:
    """Return how long a device was in each annotation.

    Where the profiler recorded that, it is the time from the first event on a stream that was launched in it to the
    last. Else, it is the time in which at least one event that was launched in it ran.
    """
    events = trace.events[trace.of(ON_GPU)]
    return Annotated(events.name, events.dur) if len(events) else _by_launches(trace)


def _by_launches(trace: Trace) -> Annotated:
    outer, (calls, gpu) = trace.events[trace.of(ON_CPU)], trace.launched
    annotation, event = inside(outer, calls)
    order = np.lexsort((gpu.ts[event], annotation))
    annotation, event = annotation[order], event[order]
    times, place = np.unique(np.concatenate([gpu.ts, gpu.end]), return_inverse=True)
    start, end = (each[event] for each in np.split(place, 2))
    # The end of what ran before; of another annotation it is before every start.
    before = np.maximum.accumulate(np.append(0, end + annotation * len(times)))[:-1] - annotation * len(times)
    busy = np.maximum(times[end] - times[np.maximum(start, before)], 0)
    found_rows, first = np.unique(annotation, return_index=True)
    return Annotated(outer.name[found_rows], np.add.reduceat(busy, first) if len(first) else busy)


def annotation_rows(trace: Trace) -> list[Row]:
    """Return the time of the annotations of each name in µs, on the CPU and on the streams of a device.

    The steps are in one row, as they have a table of their own.
    """
    steps = np.flatnonzero(matching(trace.names, STEP))
    step = int(steps[0]) if len(steps) else -1
    cpu, gpu = (
        found._replace(name=np.where(np.isin(found.name, steps), step, found.name))
        for found in (on_cpu(trace), on_gpu(trace))
    )
    rows: list[Row] = []
    for name in np.unique(np.concatenate([cpu.name, gpu.name])).tolist():
        row: Row = {"name": STEP if name == step else trace.names[name]}
        for place, found in (("cpu", cpu), ("gpu", gpu)):
            dur = found.dur[found.name == name]
            stats = time_statistics(dur) if len(dur) else {}
            row |= {f"{place} count": len(dur)} | {f"{place} {stat}": value for stat, value in stats.items()}
        rows.append(row)
    return sorted(rows, key=lambda row: (-row.get("cpu sum (us)", 0.0), row["name"]))


def of_kernels(trace: Trace) -> Ints:
    """Return the name of the innermost annotation of each row of `trace.gpu`, or -1.

    Where the profiler recorded annotations on the device, it is the shortest on its stream that overlaps with the
    event; else the innermost around the launching call.
    """
    marks = trace.events[trace.of(ON_GPU)]
    if len(marks):
        return _shortest_overlapping(marks, trace.gpu)
    outer, (calls, found) = trace.events[trace.of(ON_CPU)], trace.launches
    rows = np.append(innermost(outer, calls), -1)[found]
    return np.append(outer.name, -1)[rows]


def _shortest_overlapping(marks: EventColumns, gpu: EventColumns) -> Ints:
    name = np.full(len(gpu), -1)
    for pid, tid, rows in groups(marks.pid, marks.tid):
        here = np.flatnonzero((gpu.pid == pid) & (gpu.tid == tid))
        here = here[np.argsort(gpu.ts[here], kind="stable")]
        mark = marks[rows]
        mark = mark[np.lexsort((mark.ts, -mark.dur))]  # the shortest is written last
        first = np.searchsorted(np.maximum.accumulate(gpu.end[here]), mark.ts, "right")
        of_mark, row = pairs(first, np.searchsorted(gpu.ts[here], mark.end))
        overlapping = gpu.end[here][row] > mark.ts[of_mark]
        name[here[row[overlapping]]] = mark.name[of_mark[overlapping]]
    return name
