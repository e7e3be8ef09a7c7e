"""Data frames with the columns of HolisticTraceAnalysis, and charts: what `TraceAnalysis` returns and shows.

They need pandas and plotly.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from workshop.traces import time_series
from workshop.traces.annotations import of_kernels
from workshop.traces.breakdown import COMMUNICATION, KINDS, kinds, launch_delays
from workshop.traces.decoding import TraceError
from workshop.traces.event_columns import EventColumns
from workshop.traces.hta import MEMORY
from workshop.traces.rewriting import exact_us
from workshop.traces.steps import step_numbers
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank

if TYPE_CHECKING:
    import pandas

INSTALL = "pip install pandas plotly"

STATISTICS = ("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)")

TEMPORAL = (
    *("rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)"),
    *("idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg", "device"),
)
IDLE = ("rank", "stream", "idle_category", "idle_time", "idle_time_ratio", "device")
OVERLAP = ("rank", "comp_comm_overlap_pctg", "communication_time(us)")
BRACKETS = {">": "<", ")": "("}


def data_frame(data: Any, columns: Iterable[str] | None = None) -> "pandas.DataFrame":
    """Return a data frame; of some columns only, if they are named. A TraceError says if pandas is missing."""
    try:
        import pandas
    except ImportError:
        raise TraceError(f"data frames need pandas: {INSTALL}") from None
    return pandas.DataFrame(data, columns=None if columns is None else [*columns])


def joined(frames: "Iterable[pandas.DataFrame]") -> "pandas.DataFrame":
    """Return the rows of several data frames."""
    import pandas

    found = [*frames]
    return pandas.concat([each for each in found if len(each)] or found[:1], ignore_index=True)


def show(chart: str, data: "pandas.DataFrame", title: str, renderer: str | None = None, **options: Any) -> None:
    """Show one of the charts of plotly.express, unless there is nothing to draw."""
    if len(data):
        getattr(plotly_express(), chart)(data, title=title, **options).show(renderer=renderer or None)


def plotly_express() -> Any:
    """Return the module that draws charts; a TraceError says if it is missing."""
    try:
        import plotly.express
    except ImportError:
        raise TraceError(f"pictures need plotly: {INSTALL}; or say visualize=False") from None
    return plotly.express


def queue_frame(trace: Trace, begin: int) -> "pandas.DataFrame":
    """Return the lengths of the queues over time, in µs since a beginning in ns.

    The pid is the device and the tid is the stream, as torch.profiler numbers the events on a device.
    """
    found = time_series.queue_changes(trace)
    ts = (found.ts - begin) / 1000
    columns = {"ts": ts, "pid": found.device, "tid": found.stream, "stream": found.stream, "queue_length": found.length}
    return data_frame(columns).set_index(found.event).rename_axis("index")


def bandwidth_frame(trace: Trace, begin: int) -> "pandas.DataFrame":
    """Return the bandwidths of copies over time, in µs since a beginning in ns; the pid is the device."""
    found = time_series.bandwidth_changes(trace)
    columns = {"ts": (found.ts - begin) / 1000, "pid": found.device, "name": found.kind}
    return data_frame(columns | {"memory_bw_gbps": found.bandwidth})


def described_frames(frames: "dict[Any, pandas.DataFrame]", by: str, column: str) -> "pandas.DataFrame | None":
    """Return statistics over a column of the frames of some ranks; None without frames."""
    if not frames:
        return None
    import pandas

    together = [frame.assign(rank=rank)[["rank", by, column]] for rank, frame in frames.items()]
    return pandas.concat([each.groupby(["rank", by]).describe() for each in together])


def time_frame(
    trace: Trace, events: EventColumns, most: int, share: float, kept: Iterable[str] = ()
) -> "pandas.DataFrame":
    """Return statistics over the durations of events in µs by their name, with the small ones together as "others".

    If there are more than `most` names, those are small that come after the first `most`, or with which the sum of all
    times up to there is over its quantile `share`. `kept` has texts and regular expressions of names that stay.
    """
    frame = data_frame({"name": np.array([*trace.names, ""], object)[events.name], "dur": events.dur / 1000})
    sums = frame.groupby("name")["dur"].sum().sort_values(ascending=False, kind="stable").cumsum()
    if len(sums) > most:
        large = (sums <= sums.quantile(share)) & (np.arange(len(sums)) < most)
        large |= np.array([any(_matches(pattern, name) for pattern in kept) for name in sums.index])
        frame.loc[~frame["name"].isin(sums.index[large]), "name"] = "others"
    found = frame.groupby("name")["dur"].agg(["sum", "max", "min", "std", "mean"]).fillna(0).reset_index()
    return found.set_axis(["name", *STATISTICS], axis=1)


def launch_frame(trace: Trace, include_memory: bool) -> "pandas.DataFrame":
    """Return each launch and what it launched; without copies and sets, if they are not to be included."""
    calls, events = trace.launched
    rows = np.argsort(calls.ts, kind="stable")
    if not include_memory:
        launched = trace.launches[1] >= 0
        rows = rows[kinds(trace)[launched][rows] != KINDS.index("MEMORY")]
    times = {"cpu_duration": calls.dur, "gpu_duration": events.dur, "launch_delay": launch_delays(trace)}
    columns = {"correlation": events.correlation[rows]} | {name: time[rows] / 1000 for name, time in times.items()}
    return data_frame(columns | {"name": [trace.names[number] for number in events.name[rows]]})


def show_launches(table: "pandas.DataFrame", where: str, call_us: float, delay_us: float) -> None:
    """Show which launches take longer than what they launch, and which calls and delays are over a limit."""
    short = table[(table["cpu_duration"] <= call_us) & (table["gpu_duration"] < table["cpu_duration"])]
    long, late = table[table["cpu_duration"] > call_us], table[table["launch_delay"] > delay_us]
    show("histogram", short, f"{where}: launches longer than what they launch (µs)", x="cpu_duration")
    show("histogram", long, f"{where}: launches over {call_us} µs", x="cpu_duration")
    show("histogram", late, f"{where}: delays over {delay_us} µs", x="launch_delay")


def _matches(pattern: str, name: str) -> bool:
    try:
        return pattern in name or re.search(pattern, name) is not None
    except re.error:
        return False


def kernel_frame(trace: Trace, begin: int) -> "pandas.DataFrame":
    """Return what ran on a device, with the name of the innermost annotation of each event as a number, or -1."""
    found = trace.gpu
    calls, launch = trace.launches
    return data_frame(
        {
            "index": found.index,
            "cat": found.cat,
            "name": found.name,
            "pid": found.device,
            "tid": found.stream,
            "ts": (found.ts - begin) / 1000,
            "dur": found.dur / 1000,
            "end": (found.end - begin) / 1000,
            "stream": found.stream,
            "correlation": found.correlation,
            "bytes": found.bytes,
            "memory_bw_gbps": found.bandwidth,
            "index_correlation": np.append(calls.index, -1)[launch],
            "user_annotation": of_kernels(trace),
        }
    )


def short_name(name: str) -> str:
    """Return the name of a function without its arguments, the types of its template, and the type that it returns."""
    if MEMORY.match(name) or not any(bracket in name for bracket in BRACKETS.values()):
        return name
    kept = ""
    for letter in name.replace("->", ""):
        kept = kept.rpartition(BRACKETS[letter])[0] if letter in BRACKETS else kept + letter
    return kept.split(" ")[-1]


def counter_events(frame: "pandas.DataFrame", name: str, column: str, begin: int) -> list[dict[str, Any]]:
    """Return events that show a column over time in a viewer of traces: a counter for each stream, or for each name.

    The times of the frame are in µs since a beginning in ns; those of the events are by the clock of the file.
    """
    ts = np.rint(frame["ts"] * 1000).astype(np.int64) + begin
    if "stream" in frame:
        keys = [{"name": name, "id": stream} for stream in frame["stream"]]
    else:
        keys = [{"name": kind} for kind in frame["name"]]
    return [
        {"ph": "C", "pid": pid, "ts": exact_us(time), **key, "args": {name: value}}
        for pid, time, key, value in zip(frame["pid"].tolist(), ts.tolist(), keys, frame[column].tolist(), strict=True)
    ]


def late_starts(traces: dict[Rank, Trace], steps: list[int] | None = None, count: int = 2) -> list[Rank]:
    """Return at most `count` ranks, the one first that was most often among the `count` latest of a step.

    `steps` are the numbers of the steps to compare; None for all. `steps.stragglers` has another rule, which needs no
    common clock: the rank that hardly waits for the others.
    """
    kernels = compared_kernels(traces, steps)
    late = kernels.groupby("step")["ts"].rank(ascending=False, method="min") <= count
    times = late.groupby(kernels["rank"], sort=False).sum().sort_values(ascending=False, kind="stable")
    return times.index[:count].tolist()


def compared_kernels(traces: dict[Rank, Trace], steps: list[int] | None = None) -> "pandas.DataFrame":
    """Return the last kernel of one collective operation in each step of each rank; times in ns.

    A collective operation ends on all ranks at once, so the rank that begins it last is the one that the others wait
    for. The operation is the one whose duration differs most between the ranks; it takes at least a hundredth of a
    step. The clocks of all ranks have to agree. Nothing is returned without such an operation on several ranks. A trace
    without steps counts as one step.
    """
    tables = []
    for rank, trace in traces.items():
        step = step_numbers(trace)
        here = step >= 0 if steps is None else np.isin(step, steps)
        events = trace.events[here]
        names = np.array([*trace.names, ""], object)[events.name]
        columns = {"step": step[here], "rank": rank, "stream": events.stream, "name": names}
        columns |= {
            "ts": events.ts,
            "dur": events.dur,
            "communicates": (trace.on_gpu & trace.named(COMMUNICATION))[here],
        }
        tables.append(data_frame(columns).sort_values("ts", kind="stable"))
    found = joined(tables)
    mean_step = ((found["ts"] + found["dur"]).max() - found["ts"].min()) / max(found["step"].nunique(), 1)
    found = found[found["communicates"] & (found["dur"] >= 0.01 * mean_step)]
    found = found.drop_duplicates(["stream", "name", "step", "rank"], keep="last")
    operation = ["stream", "name"]
    spread = found.groupby([*operation, "step"], sort=False)["dur"].std().groupby(operation, sort=False).mean().dropna()
    if not len(spread):
        return found[:0]
    stream, name = spread.idxmax()
    return found[(found["stream"] == stream) & (found["name"] == name)]
