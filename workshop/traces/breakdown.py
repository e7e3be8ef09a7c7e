"""Where the time of a device, and of operators, went: computing, communicating, idle, and why idle. Exact to the ns.

The analyses have the names and columns of HolisticTraceAnalysis, whose definitions they follow with three exceptions:
an event belongs to a device by its category and not by its name, every step counts, and no time is rounded.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workshop.traces.event_columns import at_the_top
from workshop.traces.intervals import Ints, Spans, groups, overlap, without
from workshop.traces.trace import COPY, DATA_WAIT, LAUNCH, SET, SYNC, Trace, once

COMMUNICATION = r".*(nccl|rccl|hccl|mscclKernel|nvshmem)"
"""The names of communication kernels of NVIDIA, AMD, Huawei and Microsoft; some kernels of rccl are called nccl."""
CPU_COMMUNICATION = r"(gloo|mpi|nccl|c10d):"

DEVICE_COPY = r"dma_request$"
"""The name of a copy by Meta's accelerator, which is in one category with its kernels."""

KINDS = ("COMPUTATION", "COMMUNICATION", "MEMORY")
IDLE = ("host_wait", "kernel_wait", "other", "unknown")
"""The causes of gaps. In HolisticTraceAnalysis, those that are not known count as other."""

KERNEL_WAIT_NS = 30_000
"""Nanoseconds: a shorter gap between two kernels is the time that starting a kernel takes."""

Row = dict[str, Any]


def kinds(trace: Trace) -> Ints:
    """Return the index in `KINDS` of each row of `trace.gpu`."""
    memory = (trace.of(*COPY, *SET) | trace.named(DEVICE_COPY))[trace.on_gpu]
    communication = trace.named(COMMUNICATION)[trace.on_gpu]
    return np.where(memory, 2, np.where(communication, 1, 0))


def by_device(trace: Trace) -> list[Trace]:
    """Return what ran on each device as a trace of its own: one device hides nothing of another's time."""
    devices = np.unique(trace.gpu.device)
    if len(devices) < 2:
        return [trace]
    return [replace(trace, events=trace.gpu[trace.gpu.device == device]) for device in devices]


def spans(trace: Trace, kind: str) -> Spans:
    """Return the time in which a device did something of a kind."""
    return trace.gpu.spans(kinds(trace) == KINDS.index(kind))


def exposed_communication(trace: Trace) -> list[Spans]:
    """Return for each device the time in which it communicated and computed nothing."""
    return [
        without(spans(of_device, "COMMUNICATION"), spans(of_device, "COMPUTATION")) for of_device in by_device(trace)
    ]


def temporal(trace: Trace) -> list[Row]:
    """Return how each device spent the time from its first kernel to its last; without one, a CPU by its operators.

    The time of the steps before the first kernel and after the last is in no share of it.
    """
    if not len(trace.gpu):
        return [{"device": "cpu"} | _cpu_shares(trace)] if trace.of("cpu_op").any() else []
    rows = []
    for each, time in zip(by_device(trace), device_times(trace), strict=True):
        busy = each.gpu.spans()
        whole = int(busy.end[-1] - busy.start[0])
        shares = _shares(whole, whole - busy.length, spans(each, "COMPUTATION").length)
        outside = {"before(us)": time.before / 1000, "after(us)": time.after / 1000}
        rows.append({"device": int(each.gpu.device[0])} | shares | outside)
    return rows


def idle(trace: Trace, kernel_wait_ns: int = KERNEL_WAIT_NS, as_hta: bool = False) -> list[Row]:
    """Return the gaps on each stream of a device, by their cause; without a device, what the training thread waits for.

    host_wait: the CPU launched the next kernel only after the one before had ended. kernel_wait: a gap too short to be
    anything but the start of a kernel. other: it was launched in time, and waited for something else, such as another
    stream or an event. unknown: its launch is not in the trace.
    """
    if not len(trace.gpu):
        return _cpu_idle(trace)
    rows = []
    for stream, by_cause in gaps(trace, kernel_wait_ns, as_hta=as_hta):
        rows += _idle_rows(stream, {cause: int(lengths.sum()) for cause, lengths in by_cause.items()})
    return rows


def device_idle(trace: Trace) -> dict[str, float]:
    """Return for how many seconds no stream of a device was busy, by the cause in `IDLE`; the sum over all devices."""
    times = dict.fromkeys(IDLE, 0.0)
    for _, by_cause in gaps(trace, KERNEL_WAIT_NS, by_stream=False):
        for cause, lengths in by_cause.items():
            times[cause] += int(lengths.sum()) / 1e9
    return times


def gaps(
    trace: Trace, kernel_wait_ns: int, by_stream: bool = True, as_hta: bool = False
) -> Iterator[tuple[Row, dict[str, Ints]]]:
    """Yield each stream and its device, and the gaps between what runs there in ns, by their cause in `IDLE`.

    The causes are those of HolisticTraceAnalysis if all launches are in the trace, or `as_hta` asks for them.
    """
    events = trace.gpu
    calls, found = trace.launches
    long_ago = np.iinfo(np.int64).min
    launched = np.where(found >= 0, np.append(calls.ts, 0)[found], long_ago)
    causes = IDLE[:-1] if as_hta or (found >= 0).all() else IDLE
    unknown = 3 if IDLE[-1] in causes else 2
    streams = events.stream if by_stream else np.zeros_like(events.stream)
    for device, stream, here in groups(events.device, streams):
        here = here[np.argsort(events.ts[here], kind="stable")]
        before = np.maximum.accumulate(events.end[here])[:-1]
        here = here[1:]
        gap = np.maximum(events.ts[here] - before, 0)
        longer = np.where(found[here] >= 0, 2, unknown)
        cause = np.where(launched[here] > before, 0, np.where(gap < kernel_wait_ns, 1, longer))
        yield {"device": device, "stream": stream}, {name: gap[cause == each] for each, name in enumerate(causes)}


def waits_for_others(trace: Trace) -> bool:
    """Return whether a device may have waited for another stream or an event: there are several, or such a wait."""
    events = trace.events
    waits = trace.of(*SYNC) & ((events.waits_on >= 0) | (events.waits_on_stream >= 0) | trace.named("Stream Wait"))
    streams = groups(trace.gpu.device, trace.gpu.stream)
    return len(streams) > len({device for device, *_ in streams}) or bool(waits.any())


class DeviceTime(NamedTuple):
    """The time of a device in a recording, in ns."""

    before: int
    """From the begin of the first step, or of the threads that launch, to the first kernel."""
    inside: int
    """From the first kernel to the end of the last."""
    after: int
    """From then on to the end of the last step, or of the threads that launch."""

    @property
    def whole(self) -> int:
        """All of it."""
        return sum(self)


@once
def device_times(trace: Trace) -> list[DeviceTime]:
    """Return the time of each device, with what of the steps is before its first kernel, and after its last."""
    times = []
    around = _steps_or_launching_threads(trace)
    for of_device in by_device(trace) if len(trace.gpu) else ():
        begin, end = int(of_device.gpu.ts.min()), int(of_device.gpu.end.max())
        before, after = (max(begin - around[0], 0), max(around[1] - end, 0)) if around else (0, 0)
        times.append(DeviceTime(before, end - begin, after))
    return times


def _steps_or_launching_threads(trace: Trace) -> tuple[int, int] | None:
    """The begin and the end of the profiler's steps, or else of the threads that launch; None if there is neither."""
    rows = trace.on_main_thread & trace.of("user_annotation") & trace.named(r"ProfilerStep#\d")
    if not rows.any():
        rows = np.isin(trace.thread, trace.thread[trace.of(*LAUNCH)]) & ~trace.on_gpu
        if not rows.any():
            return None
    events = trace.events[rows]
    return int(events.ts.min()), int(events.end.max())


def comm_comp(trace: Trace) -> Row:
    """Return the time of the communication on all devices, and the share of it that is hidden under computation."""
    whole = sum(spans(of_device, "COMMUNICATION").length for of_device in by_device(trace))
    exposed = sum(when.length for when in exposed_communication(trace))
    return {"communication_time(us)": whole / 1000, "comp_comm_overlap_pctg": _percent(whole - exposed, whole)}


def launch_summary(trace: Trace) -> Row:
    """Return how the CPU keeps up with the device, by what has its launch in the trace; in µs."""
    calls, events = trace.launched
    if not len(calls):
        return {"launches": 0}
    delay = launch_delays(trace)
    return {
        "launches": len(calls),
        "cpu_duration(us)": float(calls.dur.mean()) / 1000,
        "gpu_duration(us)": float(events.dur.mean()) / 1000,
        "median_launch_delay(us)": float(np.median(delay)) / 1000,
        "max_launch_delay(us)": int(delay.max()) / 1000,
        "launched_longer_than_run_pctg": 100 * np.count_nonzero(calls.dur > events.dur) / len(calls),
    }


def launch_delays(trace: Trace) -> Ints:
    """Return for each row of `Trace.launched` the ns from the end of the call to the begin on the device, or 0."""
    calls, events = trace.launched
    return np.maximum(events.ts - calls.end, 0)


def kernel_types(trace: Trace, among: Sequence[str] = KINDS) -> list[Row]:
    """Return how long each of some kinds of event ran on a device, alone or at the same time as others of them."""
    times: Counter[str] = Counter()
    for device in by_device(trace):
        on = {kind: spans(device, kind) for kind in among}
        for together in range(1, 1 << len(among)):
            here = [kind for bit, kind in enumerate(among) if together >> bit & 1]
            found = on[here[0]]
            for kind in among:
                if kind != here[0]:
                    found = overlap(found, on[kind]) if kind in here else without(found, on[kind])
            times[" overlapping ".join(here)] += found.length
    whole = times.total()
    return [
        {"kernel_type": kind, "sum": time / 1000, "percentage": _percent(time, whole)}
        for kind, time in times.most_common()
        if time
    ]


def kernels(trace: Trace) -> list[Row]:
    """Return statistics over the runs of each kernel, copy and set, by its name. The longest first; times in µs."""
    kind, rows = kinds(trace), []
    for number, here in groups(trace.gpu.name):
        kernel = {"name": trace.names[number], "kernel_type": KINDS[kind[here[0]]], "count": len(here)}
        rows.append(kernel | time_statistics(trace.gpu.dur[here]))
    return sorted(rows, key=lambda row: (-row["sum (us)"], row["name"]))


def time_statistics(dur: Ints) -> dict[str, float]:
    """Return the sum, the extremes, the mean and the standard deviation of some durations in ns; in µs."""
    stats = {"sum": dur.sum(), "max": dur.max(), "min": dur.min(), "mean": dur.mean()}
    stddev = float(dur.std(ddof=1)) / 1000 if len(dur) > 1 else 0.0
    return {f"{stat} (us)": float(value) / 1000 for stat, value in stats.items()} | {"stddev": stddev}


def copies(trace: Trace) -> list[Row]:
    """Return the number, size and speed of the copies of each kind, and the share of their time under computation.

    The longest come first. "Pageable" in a name is memory that the driver has to copy once more, "Pinned" is what
    `pin_memory=True` gives.
    """
    events = trace.gpu[kinds(trace) == KINDS.index("MEMORY")]
    computing = {
        int(of_device.gpu.device[0]): spans(of_device, "COMPUTATION")
        for of_device in by_device(trace)
        if len(of_device.gpu)
    }
    rows: list[Row] = []
    for name, of_name in groups(events.name):
        here = events[of_name]
        when = {device: here.spans(rows) for device, rows in groups(here.device)}
        hidden = sum(overlap(each, computing[device]).length for device, each in when.items())
        time, size = int(here.dur.sum()), int(here.bytes.sum())
        rows.append(
            {
                "name": trace.names[name],
                "count": len(here),
                "bytes": size,
                "time(us)": time / 1000,
                "bandwidth(GB/s)": size / time if size and time else None,
                "under_computation_pctg": _percent(hidden, sum(each.length for each in when.values())),
            }
        )
    return sorted(rows, key=lambda row: (-row["time(us)"], row["name"]))


def operators(trace: Trace) -> list[Row]:
    """Return the times of each operator in µs, in descending order of the self time: on a device, if there is one.

    The time of the operators that an operator calls is in its total, and not in its self time. The time of a kernel
    counts for the operator that launched it.
    """
    all_ops, names = trace.events[trace.of("cpu_op")], len(trace.names)
    count, self_time, total, on_device = np.zeros((4, names), np.int64)
    calls, launched = trace.launched
    for *_, here in groups(all_ops.pid, all_ops.tid):
        ops = all_ops[here]
        row, spans = at_the_top(ops)
        np.add.at(count, ops.name, 1)
        np.add.at(self_time, ops.name[row], spans.end - spans.start)
        for name, of_name in groups(ops.name):
            total[name] += ops.spans(of_name).length
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


def _cpu_shares(trace: Trace) -> Row:
    events = trace.events
    ops = trace.of("cpu_op")
    communicating = trace.named(CPU_COMMUNICATION)
    window = events.spans()
    compute = events.spans(ops & ~communicating)
    busy = events.spans(ops | communicating)
    whole = int(window.end[-1] - window.start[0])
    return _shares(whole, whole - busy.length, compute.length)


def _cpu_idle(trace: Trace) -> list[Row]:
    """Return how long the training thread runs no operator: in the DataLoader, during communication, or elsewhere."""
    here = trace.on_main_thread
    if not (here & trace.of("cpu_op")).any():
        return []  # operators were not recorded, as in a report of nsys
    events = trace.events
    steps = here & trace.named(r"ProfilerStep")
    window = events.spans(steps if steps.any() else here)
    waits = without(window, events.spans(here & trace.of("cpu_op")))
    data = events.spans(here & trace.named(DATA_WAIT))
    communication = trace.named(CPU_COMMUNICATION)
    times = {"data_wait": overlap(waits, data).length}
    if communication.any():
        times["communication"] = overlap(waits, without(events.spans(communication), data)).length
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
