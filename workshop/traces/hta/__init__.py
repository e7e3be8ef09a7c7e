"""The five analyses by the rules of HolisticTraceAnalysis (traceinsight 0.6.1), including its known errors.

Times are in µs, rounded inwards if any was written with a fraction: an event of 0.8 µs may come out as -1 µs long.
Equal values are sorted as pandas sorts them: by numpy's quicksort.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.traces.breakdown import IDLE, KERNEL_WAIT_NS, KINDS, Row
from workshop.traces.intervals import Columns, Ints, pairs
from workshop.traces.trace import COPY, KERNEL, SET, Mask, Trace, matching
from workshop.traces.trace_files import Traces

COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
MEMORY = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")
NEITHER = re.compile(
    r".*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|job_exe|packet|pe_exe"
    r"|cpum_exe_subgraph|collective_subgraph_execution"
)
STEP = r"ProfilerStep#\d"
LAUNCHES = "|".join(f"{name}$" for name in ("cudaLaunchKernel(ExC)?", "cudaMem(cpy|set)Async"))
SYNCS = "(Event|Context) Sync$"
"""The names of events that are on no stream, and yet on a device."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HtaEvents(Columns):
    """The events of one trace that the original analyses, in its order."""

    place: Ints
    """The position among all events of the file."""
    name: Ints
    cat: Ints
    ts: Any
    dur: Floats
    stream: Ints
    correlation: Ints
    partner: Ints
    """The `place` of its launch, or of what it launched; 0 if that is not in the trace, -1 if there is none."""


def analyses(traces: dict[int, Trace]) -> dict[str, Any]:
    """Return all five analyses of traces by rank; None for one that stops with an error in the original."""
    several_steps = len({name for trace in traces.values() for name in trace.names if re.match(STEP, name)}) > 1
    events = {rank: hta_events(trace) for rank, trace in traces.items()}
    # Before any sum is taken: of times since 1970, a float holds no sum exactly.
    begin = min((of_rank.ts.min() for of_rank in events.values() if len(of_rank)), default=0.0)
    events = {rank: replace(each, ts=each.ts - begin) for rank, each in events.items()}
    ranks = {rank: _Rank(trace, events[rank], several_steps) for rank, trace in traces.items()}
    return {
        "temporal_breakdown": _of_all(ranks, _Rank.temporal),
        "idle_time_breakdown": _of_all(ranks, _Rank.idle),
        "comm_comp_overlap": [{"rank": rank, "comp_comm_overlap_pctg": each.overlap()} for rank, each in ranks.items()],
        "cuda_kernel_launch_stats": {str(rank): each.launches() for rank, each in ranks.items()},
        "gpu_kernel_breakdown": {"kernel_type": _kernel_types(ranks), "kernels": _kernels(ranks)},
    }


def by_rank(traces: Traces) -> dict[int, Trace]:
    """Return traces as the original has them: rank 0 if a trace names none, and the last one of equal rank.

    What is left out for this is named in the notes of the traces.
    """
    found: dict[int, Trace] = {}
    for trace in traces.values():
        rank = trace.rank or 0
        if rank in found:
            note = f"{found[rank].path} is left out: {trace.path} is of rank {rank}, too"
            traces.notes += [note] * (note not in traces.notes)
        found[rank] = trace
    return dict(sorted(found.items()))


class _Rank:
    """One trace and its analyses."""

    def __init__(self, trace: Trace, events: HtaEvents, several_steps: bool) -> None:
        self.trace = trace
        self.events = _without_last_step(trace, events) if several_steps else events
        self.gpu = self.events[self.events.stream != -1]
        kinds = np.array([_kind(name) for name in trace.names] or [0])
        self.kind = kinds[self.gpu.name]

    def temporal(self) -> list[Row] | None:
        """Return how the device spent its time, in one row."""
        if not len(self.gpu):
            return None
        start, end = _merged(self.gpu)
        kernel = end[-1] - start[0]
        idle = kernel - (end.sum() - start.sum())
        start, end = _merged(self.gpu[self.kind == 0])
        compute = end.sum() - start.sum()
        times = {"idle_time": idle, "compute_time": compute, "non_compute_time": kernel - compute - idle}
        if idle > kernel or compute > kernel or times["non_compute_time"] < 0:
            return None
        microseconds = {f"{name}(us)": _number(time) for name, time in times.items()}
        shares = {f"{name}_pctg": _number(100 * _ratio(time, kernel), 2) for name, time in times.items()}
        return [microseconds | {"kernel_time(us)": _number(kernel)} | shares]

    def idle(self) -> list[Row] | None:
        """Return the gaps before the kernels of each stream, by their cause."""
        cats = np.array([cat in (*KERNEL, *COPY, *SET) for cat in self.trace.cats] or [False])
        kernels = self.gpu[cats[self.gpu.cat]]
        if not len(kernels):
            return None
        ts_of = dict(zip(self.events.place[::-1].tolist(), self.events.ts[::-1].tolist(), strict=True))
        launched = np.array([ts_of.get(partner, math.nan) for partner in kernels.partner.tolist()])
        _, first = np.unique(kernels.stream, return_index=True)
        rows = []
        for stream in kernels.stream[np.sort(first)]:
            here = kernels.stream == stream
            order = np.argsort(kernels.ts[here])
            rows += _idle_of_stream(int(stream), kernels[here][order], launched[here][order])
        return rows

    def overlap(self) -> float | None:
        """Return the share of the communication during which something is computed, in percent."""
        communication, computation = _merged(self.gpu[self.kind == 1]), _merged(self.gpu[self.kind == 0])
        status = np.repeat([1, -1, 2, -2], [len(each) for each in (*communication, *computation)])
        time = np.concatenate([*communication, *computation])
        order = np.argsort(time)
        running, time = np.cumsum(status[order]), time[order]
        both = np.diff(time)[running[:-1] == 3].sum() if len(time) else 0.0
        return _number(100 * _ratio(both, (communication[1] - communication[0]).sum()), 2)

    def launches(self) -> Row:
        """Return calls and what they launched, joined by correlation."""
        events = self.events
        here = np.isin(events.correlation, events.correlation[_named(self.trace, events, LAUNCHES)])
        cpu, gpu = events[here & (events.stream == -1)], events[here & (events.stream != -1)]
        gpu = gpu[np.argsort(gpu.correlation, kind="stable")]
        bounds = (np.searchsorted(gpu.correlation, cpu.correlation, side) for side in ("left", "right"))
        of_cpu, of_gpu = pairs(*bounds)
        cpu, gpu = cpu[of_cpu], gpu[of_gpu]
        delay = np.maximum(gpu.ts - cpu.ts - cpu.dur, 0)
        times = {"cpu_duration": cpu.dur, "gpu_duration": gpu.dur, "launch_delay": delay}
        first_rows = [
            {"correlation": int(cpu.correlation[row])} | {name: float(column[row]) for name, column in times.items()}
            for row in range(min(len(delay), 3))
        ]
        sums = {f"{name}_sum": float(column.sum()) for name, column in times.items()}
        return {"rows": len(delay)} | sums | {"first_rows": first_rows}

    def types(self) -> dict[str, int]:
        """Return for how many µs each kind of kernel ran, alone or at the same time as others."""
        status, time = np.empty(0, np.int64), np.empty(0)
        for kind in range(len(KINDS)):
            start, end = _merged(self.gpu[self.kind == kind])
            status = np.concatenate([status, np.repeat([1 << kind, -(1 << kind)], len(start))])
            time = np.concatenate([time, start, end])
            order = np.argsort(time)
            status, time = status[order], time[order]
        found: dict[str, int] = defaultdict(int)
        running = np.cumsum(status)[:-1]
        for state in np.unique(running[running > 0]):
            name = " overlapping ".join(kind for bit, kind in enumerate(KINDS) if state >> bit & 1)
            found[name] += int(np.trunc(np.diff(time)[running == state]).sum())
        return found

    def kernels(self, kind: int) -> dict[str, float]:
        """Return the µs of each kernel by its name; of more than ten, the small ones are summed up as others."""
        sums: dict[str, float] = defaultdict(float)
        rows = self.gpu[self.kind == kind]
        for name, dur in zip(rows.name.tolist(), rows.dur.tolist(), strict=True):
            sums[self.trace.names[name]] += dur
        names, times = _descending(sums)
        if len(names) > 10:
            together = np.cumsum(times)
            small = together > np.quantile(together, 0.8)
            small[10:] = True
            small &= times >= 0
            sums = defaultdict(float)
            for name, time, is_small in zip(names, times.tolist(), small, strict=True):
                sums["others" if is_small else name] += time
        return sums


def _of_all(ranks: dict[int, _Rank], analysis: Callable[[_Rank], list[Row] | None]) -> list[Row] | None:
    """Return the rows of all ranks; None if the original stops with an error at one of them."""
    tables = {rank: analysis(each) for rank, each in ranks.items()}
    if None in tables.values():
        return None
    return [{"rank": rank} | row for rank, rows in tables.items() for row in rows or []]


def _kernel_types(ranks: dict[int, _Rank]) -> list[Row]:
    sums: Counter[str] = Counter()
    for rank in ranks.values():
        sums.update(rank.types())
    names, times = _descending(sums)
    return [
        {"kernel_type": name, "sum": int(time), "percentage": _number(100 * _ratio(time, times.sum()), 1)}
        for name, time in zip(names, times, strict=True)
    ]


def _kernels(ranks: dict[int, _Rank]) -> list[Row]:
    found = [
        (kind, name, rank, time)
        for rank, each in ranks.items()
        for number, kind in enumerate(KINDS)
        for name, time in each.kernels(number).items()
    ]
    return [
        {"name": name[:80], "sum (us)": time, "kernel_type": kind, "rank": rank}
        for kind, name, rank, time in sorted(found)
    ]


def _descending(sums: Mapping[str, float]) -> tuple[list[str], NDArray[Any]]:
    names = sorted(sums)
    times = np.array([sums[name] for name in names])
    order = len(times) - 1 - np.argsort(times[::-1])[::-1]
    return [names[row] for row in order], times[order]


def hta_events(trace: Trace) -> HtaEvents:
    """Return the events of a trace as the original has them."""
    events = trace.events
    ts, dur = ((each.astype(np.longdouble) / 1000).astype(np.float64) for each in (events.ts, events.dur))
    if not trace.whole_us:
        start, end = np.ceil(ts), np.floor(ts + dur)
        ts, dur = start, end - start
    if not trace.untimed and len(ts):  # else pandas makes floats of them; what is equal is sorted by type
        ts = ts.astype(np.result_type(*(np.min_scalar_type(-abs(int(each)) or -1) for each in (ts.min(), ts.max()))))
    partner = np.minimum(events.correlation, 0)
    columns = (events.index, events.name, events.cat, ts, dur, events.stream, events.correlation)
    found = HtaEvents(*columns, partner)
    on_gpu = _on_gpu(trace, found)
    for one, other in ((on_gpu, ~on_gpu), (~on_gpu, on_gpu)):
        rows = np.flatnonzero(one & (found.correlation != -1))
        others = np.flatnonzero(other & (found.correlation != -1))
        others = others[np.argsort(found.correlation[others], kind="stable")]
        last = np.searchsorted(found.correlation[others], found.correlation[rows], "right") - 1
        there = (last >= 0) & (found.correlation[others][last] == found.correlation[rows]) if len(others) else last >= 0
        partner[rows[there]] = found.place[others[last[there]]]
    return found


def _named(trace: Trace, events: HtaEvents, pattern: str) -> Mask:
    return matching(trace.names, pattern)[events.name]


def _on_gpu(trace: Trace, events: HtaEvents) -> Mask:
    return (events.stream >= 0) & (events.correlation >= 0) | _named(trace, events, SYNCS)


def _without_last_step(trace: Trace, events: HtaEvents) -> HtaEvents:
    """Return what the CPU began before the last step, and what that launched: as often as it was launched."""
    on_gpu = _on_gpu(trace, events)
    cpu, gpu = events[~on_gpu], events[on_gpu]
    if not len(cpu):
        return events
    steps = cpu.ts[_named(trace, cpu, STEP)]
    cpu = cpu[cpu.ts < (steps.max() if len(steps) else cpu.ts.min())]
    launched = np.sort(cpu.correlation)
    times = np.searchsorted(launched, gpu.correlation, "right") - np.searchsorted(launched, gpu.correlation, "left")
    gpu = gpu[np.repeat(np.arange(len(times)), times)]
    return HtaEvents(*(np.concatenate(columns) for columns in zip(vars(gpu).values(), vars(cpu).values(), strict=True)))


def _merged(events: HtaEvents) -> tuple[Floats, Floats]:
    """Return the starts and ends of the times when something ran; an end may be before its start (see the top)."""
    order = np.argsort(events.ts)
    start, end = events.ts[order], (events.ts + events.dur)[order]
    if not len(start):
        return start, end
    begins = np.flatnonzero(np.concatenate([[True], start[1:] > np.maximum.accumulate(end)[:-1]]))
    return start[begins], np.maximum.reduceat(end, begins)


def _idle_of_stream(stream: int, kernels: HtaEvents, launched: Floats) -> list[Row]:
    before = np.concatenate([[math.nan], (kernels.ts + kernels.dur)[:-1]])
    gap = kernels.ts - before
    host = launched > before
    category = np.where(host, 0, np.where(gap < KERNEL_WAIT_NS / 1000, 1, 2))
    sums = {IDLE[each]: np.nansum(gap[category == each]) for each in np.unique(category)}
    return [
        {
            "stream": stream,
            "idle_category": name,
            "idle_time": _number(time, 2),
            "idle_time_ratio": _number(_ratio(time, sum(sums.values())), 2),
        }
        for name, time in sums.items()
    ]


def _kind(name: str) -> int:
    if COMMUNICATION.match(name):
        return 1
    if MEMORY.match(name):
        return 2
    return 3 if NEITHER.match(name) else 0


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else math.nan


def _number(value: float, digits: int | None = None) -> float | None:
    """Return a number for JSON, perhaps rounded; None for those that JSON lacks: infinity and "not a number"."""
    if not math.isfinite(value):
        return None
    return float(value if digits is None else np.round(value, digits))
