"""Which line of the user's code asked for what a device did; without a device, for what the operators did themselves.

What ran on a device belongs to the line in which the CPU launched it, and what a backward pass did to the line of the
forward pass. What has no line is in a row that says why, so that the rows add up to all of it.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.code_files import CodeFiles
from workshop.traces.code_places import CodePlace
from workshop.traces.event_columns import at_the_top
from workshop.traces.intervals import Ints, groups, sums
from workshop.traces.thread_places import Stacks, ThreadPlaces, last_with, stacks, thread_places
from workshop.traces.trace import Trace, matching, once

GRAPH_LAUNCH = r"(cuda|cu|hip)GraphLaunch"


NO_STACKS = (
    "No lines are known, as no stacks were recorded: workshop record torch --with-stack -- SCRIPT does that, as does "
    "with_stack=True of torch.profiler"
)


class LineTimes(NamedTuple):
    """The time of each place in ns: columns of equal length."""

    places: list[CodePlace]
    host: Ints
    """The time in which a thread was in this place, and in no other that was called there."""
    work: Ints
    """The time of what a device did, or else of the operators themselves."""
    runs: Ints
    """The number of events on the device, or of operators."""
    recorded: int
    """All time of the device, or of the operators."""


class Work(NamedTuple):
    """What a device did, or else the operators themselves, in pieces: columns of equal length, but for the last two."""

    place: Ints
    """The number of the place that asked for each piece."""
    asked: Ints
    """When it was asked for, in ns."""
    start: Ints
    end: Ints
    counted: Ints
    """The place of each event on the device, or of each operator."""
    recorded: int


def line_rows(trace: Trace) -> list[Row]:
    """Return the time of each place in the user's code in µs, that with most time of the device first."""
    times = line_times(trace)
    work = "device(us)" if len(trace.gpu) else "operators(us)"
    files, rows = CodeFiles(trace.path, times.places), list[Row]()
    for row in np.lexsort((-times.host, -times.work)).tolist():
        place = times.places[row]
        if times.runs[row] or times.host[row]:
            rows.append(
                {
                    "place": place.name,
                    "source": files.line(place) or None,
                    "host(us)": float(times.host[row]) / 1000,
                    work: float(times.work[row]) / 1000,
                    "runs": int(times.runs[row]),
                    "share_pctg": 100 * float(times.work[row]) / times.recorded if times.recorded else None,
                    **place._asdict(),
                }
            )
    return rows


def sum_row(trace: Trace) -> list[Row]:
    """Return what the times of the places add up to, beside all that was recorded, and what the stacks tell."""
    times = line_times(trace)
    in_lines = int(times.work[[bool(place.file) for place in times.places]].sum())
    whole = times.recorded
    row = {
        "of": "kernels, copies and sets" if len(trace.gpu) else "operators",
        "sum(us)": float(times.work.sum()) / 1000,
        "recorded(us)": whole / 1000,
        "in_lines_pctg": 100 * in_lines / whole if whole else None,
        "stacks": str(stacks(trace)),
    }
    return [row] if len(times.places) else []


def notes(traces: Iterable[Trace]) -> list[str]:
    """Return a sentence if none of some traces has stacks."""
    return [NO_STACKS] * all(stacks(trace) is Stacks.NONE for trace in traces)


@once
def line_times(trace: Trace) -> LineTimes:
    """Return the time of each place in the user's code."""
    threads, work = thread_places(trace), work_of(trace)
    number = len(threads.numbers)
    host = np.zeros(number, np.int64)
    for top in threads.top.values():
        host += sums(top.place, top.spans.end - top.spans.start, number)
    runs = np.bincount(work.counted, minlength=number)
    return LineTimes([*threads.numbers], host, sums(work.place, work.end - work.start, number), runs, work.recorded)


@once
def work_of(trace: Trace) -> Work:
    """Return what the device did, or else the operators, with the numbers of `thread_places`."""
    threads = thread_places(trace)
    return _on_device(trace, threads) if len(trace.gpu) else _of_operators(trace, threads)


def _on_device(trace: Trace, threads: ThreadPlaces) -> Work:
    """Return where what a device did was launched: by its call, or else by an operator of the same number."""
    (calls, found), gpu = trace.launches, trace.gpu
    of_call = threads.of(trace.threads_of(calls), calls.ts)
    graphs = matching(trace.names, GRAPH_LAUNCH)[calls.name]
    of_call[graphs] = threads.noted(of_call[graphs], "a replayed graph")
    place = np.append(of_call, threads.unknown("its launch is not in the trace"))[found]
    # In older traces, what a device did has the number of its launch in place of that of an operator.
    linked = np.flatnonzero((found < 0) & (gpu.external >= 0) & (gpu.external != gpu.correlation))
    ops = trace.events[trace.of("cpu_op")]
    at = last_with(ops.external, np.arange(len(ops)), gpu.external[linked])
    place[linked[at >= 0]] = threads.of(trace.threads_of(ops), ops.ts)[at[at >= 0]]
    return Work(place, trace.launched_at, gpu.ts, gpu.end, place, int(gpu.dur.sum()))


def _of_operators(trace: Trace, threads: ThreadPlaces) -> Work:
    """Return where the operators were called, and where each piece of their own time was spent."""
    ops = trace.events[trace.of("cpu_op")]
    thread = trace.threads_of(ops)
    (places, starts, ends), recorded = ([np.empty(0, np.int64)] for _ in range(3)), 0
    for number, rows in groups(thread):
        _, spans = at_the_top(ops[rows])
        places.append(threads.of(np.full(len(spans.start), number), spans.start))
        starts.append(spans.start)
        ends.append(spans.end)
        recorded += ops.spans(rows).length
    place, start, end = map(np.concatenate, (places, starts, ends))
    return Work(place, start, start, end, threads.of(thread, ops.ts), recorded)
