"""Where the time of a device went: computing, communicating, copying, idle, and why idle. Exact to the ns.

The analyses have the names and columns of HolisticTraceAnalysis, whose definitions they follow where those are right:
what runs on a device is told by its category and not by its name, every step counts, and no time is rounded.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workshop.profiles.traces.intervals import Spans, overlap, without
from workshop.profiles.traces.trace import COPY, SET, EventColumns, Trace

COMMUNICATION = r".*(nccl|rccl|hccl|mscclKernel|nvshmem)"
"""Kernels of the libraries for it: NVIDIA's, AMD's, Huawei's, Microsoft's; rccl's are called nccl, too."""
CPU_COMMUNICATION = r"(gloo|mpi|nccl|c10d):"
"""What torch calls it on the CPU."""

KINDS = ("COMPUTATION", "COMMUNICATION", "MEMORY")
IDLE = ("host_wait", "kernel_wait", "other")
KERNEL_WAIT_NS = 30_000
"""A shorter gap between two kernels is what it takes to start one."""

Ints = NDArray[np.int64]
Row = dict[str, Any]


class Launched(NamedTuple):
    """Calls on the CPU and what they made the device do. Columns of equal length, times in ns."""

    name: Ints
    """Number of what was launched in `Trace.names`."""
    correlation: Ints
    cpu_duration: Ints
    gpu_duration: Ints
    launch_delay: Ints
    """From the end of the call to the begin on the device, or 0."""


def kinds(trace: Trace) -> Ints:
    """Of each row of `trace.gpu`, its number in `KINDS`."""
    memory = np.array([cat in (*COPY, *SET) for cat in trace.cats] or [False])[trace.gpu.cat]
    communication = trace.named(COMMUNICATION)[trace.on_gpu]
    return np.where(memory, 2, np.where(communication, 1, 0))


def spans(trace: Trace, kind: str) -> Spans:
    """When a device did something of a kind."""
    return trace.gpu.spans(kinds(trace) == KINDS.index(kind))


def temporal(trace: Trace) -> list[Row]:
    """Shares of the time from the first kernel to the end of the last, for each device; of a CPU, if there is none."""
    if not len(trace.gpu):
        return [{"device": "cpu"} | _cpu_shares(trace)]
    rows = []
    kind = kinds(trace)
    for device in np.unique(trace.gpu.device):
        here = trace.gpu.device == device
        busy = trace.gpu.spans(here)
        compute = trace.gpu.spans(here & (kind == 0))
        whole = int(busy.end[-1] - busy.start[0])
        rows.append({"device": int(device)} | _shares(whole, whole - busy.length, compute.length))
    return rows


def idle(trace: Trace, kernel_wait_ns: int = KERNEL_WAIT_NS) -> list[Row]:
    """Gaps on each stream of a device, by whose fault they are; of a CPU, what its main thread waits for.

    host_wait: the CPU launched the next kernel only after the one before had ended. kernel_wait: a gap too short to be
    anything but the start of a kernel. other: it was launched in time, and waited for another stream, or an event.
    """
    if not len(trace.gpu):
        return _cpu_idle(trace)
    rows = []
    for where, gap, category in _gaps(trace, kernel_wait_ns):
        times = {name: int(gap[category == number].sum()) for number, name in enumerate(IDLE)}
        rows += _idle_rows(where, times)
    return rows


def gap_statistics(trace: Trace, kernel_wait_ns: int = KERNEL_WAIT_NS) -> list[Row]:
    """How long the gaps on each stream are, by their cause; in µs."""
    rows: list[Row] = []
    for where, gap, category in _gaps(trace, kernel_wait_ns):
        for number, name in enumerate(IDLE):
            here = gap[category == number] / 1000
            if len(here):
                quartiles = dict(zip(("25%", "50%", "75%"), np.percentile(here, (25, 50, 75)).tolist(), strict=True))
                stats = {"count": len(here), "mean": float(here.mean()), "min": float(here.min())}
                rows.append(where | {"idle_category": name} | stats | quartiles | {"max": float(here.max())})
    return rows


def device_idle(trace: Trace) -> dict[str, float]:
    """Why no stream of a device was busy: seconds of each cause in `IDLE`, over all devices."""
    times = dict.fromkeys(IDLE, 0.0)
    for _, gap, category in _gaps(trace, KERNEL_WAIT_NS, by_stream=False):
        for number, name in enumerate(IDLE):
            times[name] += int(gap[category == number].sum()) / 1e9
    return times


def _gaps(trace: Trace, kernel_wait_ns: int, by_stream: bool = True) -> Iterator[tuple[Row, Ints, Ints]]:
    """Of each stream: where it is, the gaps in ns before all kernels but the first, and their causes in `IDLE`."""
    events = trace.gpu
    launched = launch_times(trace)
    streams = events.stream if by_stream else np.zeros_like(events.stream)
    for device, stream in sorted({*zip(events.device.tolist(), streams.tolist(), strict=True)}):
        here = np.flatnonzero((events.device == device) & (streams == stream))
        here = here[np.argsort(events.ts[here], kind="stable")]
        before = np.maximum.accumulate(events.end[here])[:-1]
        here = here[1:]
        gap = np.maximum(events.ts[here] - before, 0)
        category = np.where(launched[here] > before, 0, np.where(gap < kernel_wait_ns, 1, 2))
        yield {"device": device, "stream": stream}, gap, category


def comm_comp(trace: Trace) -> Row:
    """The share of the communication under which something was computed."""
    communication = spans(trace, "COMMUNICATION")
    hidden = overlap(communication, spans(trace, "COMPUTATION")).length
    whole = communication.length
    return {"communication_time(us)": whole / 1000, "comp_comm_overlap_pctg": _percent(hidden, whole)}


def launches(trace: Trace) -> Launched:
    """Every kernel, copy and set whose launch is in the trace; by CUDA's runtime or driver, or by HIP."""
    events = trace.gpu
    calls, found = find_calls(trace)
    events, calls = events[found >= 0], calls[found[found >= 0]]
    delay = np.maximum(events.ts - calls.end, 0)
    order = np.argsort(calls.ts, kind="stable")
    columns = (events.name, events.correlation, calls.dur, events.dur, delay)
    return Launched(*(column[order] for column in columns))


def launch_summary(trace: Trace) -> Row:
    """How the CPU keeps up with the device; in µs."""
    found = launches(trace)
    if not len(found.name):
        return {"launches": 0}
    longer = np.count_nonzero(found.cpu_duration > found.gpu_duration)
    return {
        "launches": len(found.name),
        "cpu_duration(us)": float(found.cpu_duration.mean()) / 1000,
        "gpu_duration(us)": float(found.gpu_duration.mean()) / 1000,
        "median_launch_delay(us)": float(np.median(found.launch_delay)) / 1000,
        "max_launch_delay(us)": int(found.launch_delay.max()) / 1000,
        "launched_longer_than_run_pctg": 100 * longer / len(found.name),
    }


def launch_times(trace: Trace) -> Ints:
    """When each row of `trace.gpu` was launched, in ns; long ago, if that is not in the trace."""
    calls, found = find_calls(trace)
    return np.where(found >= 0, np.append(calls.ts, 0)[found], np.iinfo(np.int64).min)


def find_calls(trace: Trace) -> tuple[EventColumns, Ints]:
    """The calls that launch something, and for each row of `trace.gpu` which of them did, or -1."""
    calls = trace.launches
    calls = calls[np.lexsort((calls.ts, calls.correlation))]
    first = np.searchsorted(calls.correlation, trace.gpu.correlation)  # the runtime's, if it called the driver
    there = np.append(calls.correlation, -2)[first] == trace.gpu.correlation
    return calls, np.where(there, first, -1)


def kernel_types(trace: Trace) -> list[Row]:
    """How long which kinds ran, alone or at the same time."""
    on = {kind: spans(trace, kind) for kind in KINDS}
    rows: list[Row] = []
    for together in range(1, 1 << len(KINDS)):
        here = [kind for bit, kind in enumerate(KINDS) if together >> bit & 1]
        found = on[here[0]]
        for kind in KINDS:
            if kind != here[0]:
                found = overlap(found, on[kind]) if kind in here else without(found, on[kind])
        if found.length:
            rows.append({"kernel_type": " overlapping ".join(here), "sum": found.length / 1000})
    whole = sum(row["sum"] for row in rows)
    return [row | {"percentage": _percent(row["sum"], whole)} for row in sorted(rows, key=lambda row: -row["sum"])]


def kernels(trace: Trace) -> list[Row]:
    """Every kernel, copy and set by its name, with statistics over its runs. The longest first; times in µs."""
    kind, name = kinds(trace), trace.gpu.name
    order = np.argsort(name, kind="stable")
    names, first = np.unique(name[order], return_index=True)
    rows = []
    for number, here in zip(names, np.split(order, first[1:]) if len(order) else [], strict=False):
        dur = trace.gpu.dur[here] / 1000
        stats = {"sum": dur.sum(), "max": dur.max(), "min": dur.min(), "mean": dur.mean()}
        rows.append(
            {"name": trace.names[number], "kernel_type": KINDS[kind[here[0]]], "count": len(here)}
            | {f"{stat} (us)": float(value) for stat, value in stats.items()}
            | {"stddev": float(dur.std(ddof=1)) if len(dur) > 1 else 0.0}
        )
    return sorted(rows, key=lambda row: (-row["sum (us)"], row["name"]))


def _cpu_shares(trace: Trace) -> Row:
    events = trace.events
    ops = trace.of("cpu_op")
    communicating = trace.named(CPU_COMMUNICATION)
    window = events.spans()
    compute = events.spans(ops & ~communicating)
    busy = events.spans(ops | communicating)
    whole = int(window.end[-1] - window.start[0]) if len(window.start) else 0
    return _shares(whole, whole - busy.length, compute.length)


def _cpu_idle(trace: Trace) -> list[Row]:
    """When the thread that trains runs no operator: in the data loader, while ranks communicate, or anywhere else."""
    here = trace.on_main_thread
    if not here.any():
        return []
    events = trace.events
    steps = here & trace.named(r"ProfilerStep")
    window = events.spans(steps if steps.any() else here)
    waits = without(window, events.spans(here & trace.of("cpu_op")))
    data = events.spans(here & trace.named(r"enumerate\(DataLoader\)"))
    talking = trace.named(CPU_COMMUNICATION)
    others = without(events.spans(talking), data)
    times = {"data_wait": overlap(waits, data).length}
    if talking.any():
        times["communication"] = overlap(waits, others).length
    times["other"] = waits.length - sum(times.values())
    return _idle_rows({"device": "cpu", "stream": "main thread"}, times)


def _idle_rows(where: Row, times: dict[str, int]) -> list[Row]:
    whole = sum(times.values())
    return [
        where | {"idle_category": name, "idle_time": time / 1000, "idle_time_ratio": time / whole if whole else None}
        for name, time in times.items()
    ]


def _shares(whole: int, idle_ns: int, compute_ns: int) -> Row:
    times = {"idle_time": idle_ns, "compute_time": compute_ns, "non_compute_time": whole - idle_ns - compute_ns}
    shares = {f"{name}_pctg": _percent(time, whole) for name, time in times.items()}
    return {f"{name}(us)": time / 1000 for name, time in times.items()} | {"kernel_time(us)": whole / 1000} | shares


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None
