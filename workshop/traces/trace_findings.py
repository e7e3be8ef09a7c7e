"""Finds where a training loses time by its traces, what that costs, and where most memory was in use."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from statistics import median
from typing import Any

from workshop.probe.phases import Phase
from workshop.terminal import cut
from workshop.traces import breakdown, memory
from workshop.traces.intervals import union
from workshop.traces.path import of_typical_step
from workshop.traces.path.dependencies import COMMUNICATION, DATA, KINDS, UNKNOWN
from workshop.traces.recorded_graphs import recorded_graphs
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace import DATA_WAIT, Trace
from workshop.traces.trace_files import Rank

_IDLE = "the device is idle for {idle:.0%} of the time, and {part:.0%} of that is "


class TraceCause(Enum):
    """What costs time, or holds memory: the topic by which a part teaches it, and the words for its figures."""

    DATA_WAIT = "data wait", "the training waits for data for {part:.0%} of its steps ({waiting}); load it faster"
    DATA_WAIT_OF_STEP = (
        "data wait",
        "the training waits for data for {part:.0%} of its steps ({waiting}); without this, {step} would take "
        "{without} instead of {took}; load it faster",
    )
    LONG_STEPS = (
        "long steps",
        "{long} of {steps} steps took more than {medians} times as long as the median, {median}: {excess} more in all. "
        "What happened then that does not happen in the others?",
    )
    BEFORE = "before", _IDLE + "before its first kernel; see what the CPU does until then"
    HOST_WAIT = "host_wait", _IDLE + "host wait: the CPU launches too late; see what it does meanwhile"
    KERNEL_WAIT = (
        "kernel_wait",
        _IDLE + "short gaps between kernels; fewer and larger ones help: torch.compile, CUDA graphs",
    )
    STREAM_WAIT = "other", _IDLE + "one stream's wait for another, or for an event"
    OTHER_WAIT = "other", _IDLE + "for a reason that the trace does not show: the kernels were launched in time"
    UNKNOWN_LAUNCH = "unknown", _IDLE + "before kernels whose launch is not in the trace, so the cause is not known"
    NO_LAUNCHES = "unknown", f"{UNKNOWN_LAUNCH[1]}; record the CPU, too"
    AFTER = "after", _IDLE + "after its last kernel; see what the CPU does from then on"
    RECORDED_GRAPHS = (
        "recorded graphs",
        "for {part:.0%} of the time, CUDA graphs are recorded, {count} of them{where}; each is of one shape of "
        "its inputs",
    )
    COMMUNICATION = "communication", "{hidden:.0f}% of the communication is hidden under computation; {exposed} are not"
    PAGEABLE_COPIES = (
        "copies",
        "{name}: {count} copies take {exposed} under no computation; pin the memory they come from, and copy ahead",
    )
    COPIES = "copies", "{name}: {count} copies take {exposed} under no computation; copy ahead"
    OPERATOR = "operators", "{name} takes {part:.0%} of the time, in {count} calls; find the line that calls it"
    OTHER_RANKS = "communication", "for {part:.0%} of the time, the thread that trains waits for the other ranks"
    PYTHON = (
        "Python",
        "for {part:.0%} of the time, the thread that trains runs neither an operator nor the data loader: Python, or "
        "it waits; a sampling profile tells which",
    )
    CRITICAL_PATH = (
        "critical path",
        "{step} is bound by {kind} for {part:.0%} of its time. On its critical path, {name} counts most: without it, "
        "this would take {without} instead of {took}",
    )
    CRITICAL_LAUNCH = (
        "critical path",
        "{step} is bound by {kind} for {part:.0%} of its time. On its critical path, {name}, launched by {launcher}, "
        "counts most: without it, this would take {without} instead of {took}",
    )
    SLOW_RANK = (
        "slow rank",
        "rank {slow} is the slowest: in a step it works {behind} longer by itself than rank {quick}, "
        "which waits for it",
    )
    PEAK = "memory", "at most {peak} of memory on {device} were in use at once ({when}){unseen}; of that {sources}"

    def __init__(self, topic: str, words: str) -> None:
        self.topic, self.words = topic, words


class Ns(float):
    """Nanoseconds, which a sentence has in the largest unit of which they are at least one."""

    def __format__(self, _: str) -> str:
        return _in_units(self, {"s": 1e9, "ms": 1e6, "µs": 1e3})


class Bytes(float):
    """Bytes, which a sentence has in the largest unit of which they are at least one."""

    def __format__(self, _: str) -> str:
        return _in_units(self, {"GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1})


@dataclass(frozen=True)
class TraceFinding:
    """One thing that costs time, or a fact about memory."""

    cause: TraceCause
    share: float | None
    """The largest share of the whole time that it may cost; None for a fact."""
    table: str
    """The name of the table that shows it."""
    figures: dict[str, Any]
    rank: Rank | None = None
    """The rank that it is of; None where there is one only, or all are compared."""

    @property
    def topic(self) -> str:
        """What it is about, by which a part teaches it."""
        return self.cause.topic

    @property
    def text(self) -> str:
        """The finding as a sentence."""
        return f"{'' if self.rank is None else f'rank {self.rank}: '}{self.cause.words.format(**self.figures)}"


def findings(traces: dict[Rank, Trace]) -> list[TraceFinding]:
    """Return what costs 3 % of the time, or more, the most first; then the peaks of the memory, if it was recorded."""
    costs: list[TraceFinding] = []
    facts: list[TraceFinding] = []
    for rank, trace in traces.items():
        of_rank = [*_data_wait(trace), *_long_steps(trace)]
        if whole_us := _whole_us(trace):
            of_rank += (_device if len(trace.gpu) else _cpu)(trace, whole_us)
        of_rank += _critical_path(trace)
        several = rank if len(traces) > 1 else None
        costs += [replace(finding, rank=several) for finding in of_rank]
        facts += [replace(finding, rank=several) for finding in _peaks(trace)]
    costly = [cost for cost in [*costs, *_slowest_rank(traces)] if (cost.share or 0.0) >= 0.03]
    return sorted(costly, key=lambda cost: -(cost.share or 0.0)) + facts


def all_clear(traces: dict[Rank, Trace]) -> str:
    """Return what to say of traces without findings: that nothing costs much only if there is what could."""
    if any(_whole_us(trace) for trace in traces.values()):
        return "Nothing in it costs much."
    return "Neither an operator nor a kernel was recorded, so it does not tell what costs time."


def _data_wait(trace: Trace) -> Iterator[TraceFinding]:
    steps = traced_steps(trace)
    whole = sum(step.end - step.start for step in steps)
    if not whole:
        return
    waiting = sum(step.phases[Phase.DATA_WAIT] for step in steps)
    figures: dict[str, Any] = {"part": waiting / whole, "waiting": Ns(waiting)}
    share = waiting / whole * _share_of_steps(trace)
    path = of_typical_step(trace)
    if path and (without := [operator.without for operator in path.operators if re.match(DATA_WAIT, operator.name)]):
        figures |= {"step": path.window.name, "without": Ns(without[0]), "took": Ns(path.duration)}
        yield TraceFinding(TraceCause.DATA_WAIT_OF_STEP, share, "steps", figures)
    else:
        yield TraceFinding(TraceCause.DATA_WAIT, share, "steps", figures)


def _long_steps(trace: Trace) -> Iterator[TraceFinding]:
    lengths = [step.end - step.start for step in traced_steps(trace)]
    if len(lengths) < 5:
        return  # among fewer, a single long one does not stand out
    median_ns, medians = median(lengths), 1.5
    excess = [length - median_ns for length in lengths if length > medians * median_ns]
    figures = {"long": len(excess), "steps": len(lengths), "medians": medians}
    figures |= {"median": Ns(median_ns), "excess": Ns(sum(excess))}
    yield TraceFinding(TraceCause.LONG_STEPS, sum(excess) / sum(lengths), "steps", figures)


def _device(trace: Trace, whole_us: float) -> Iterator[TraceFinding]:
    times = breakdown.device_times(trace)
    outside = {"before": sum(time.before for time in times) / 1e9, "after": sum(time.after for time in times) / 1e9}
    idle_s = breakdown.device_idle(trace) | outside
    idle = 1e6 * sum(idle_s.values()) / whole_us
    other = TraceCause.STREAM_WAIT if breakdown.waits_for_others(trace) else TraceCause.OTHER_WAIT
    unknown = TraceCause.UNKNOWN_LAUNCH if len(trace.launches[0]) else TraceCause.NO_LAUNCHES
    waits = (TraceCause.BEFORE, TraceCause.HOST_WAIT, TraceCause.KERNEL_WAIT, other, unknown, TraceCause.AFTER)
    for cause in waits if idle else ():
        part = idle_s[cause.topic] / sum(idle_s.values())
        table = ("steps" if traced_steps(trace) else "temporal") if cause.topic in outside else "idle"
        yield TraceFinding(cause, idle * part, table, {"idle": idle, "part": part})
    graphs = recorded_graphs(trace)
    if graphs.most_in:
        part = union(graphs.start, graphs.end).length / 1e3 / whole_us
        where = f", most in {graphs.most_in.name}" if graphs.most_in.file else ""
        figures = {"part": part, "count": len(graphs.start), "where": where}
        yield TraceFinding(TraceCause.RECORDED_GRAPHS, part, "lines" if where else "temporal", figures)
    communication = breakdown.comm_comp(trace)
    if (hidden := communication["comp_comm_overlap_pctg"]) is not None:
        exposed_us = communication["communication_time(us)"] * (1 - hidden / 100)
        figures = {"hidden": hidden, "exposed": Ns(exposed_us * 1000)}
        yield TraceFinding(TraceCause.COMMUNICATION, exposed_us / whole_us, "overlap", figures)
    for row in breakdown.copies(trace):
        if "HtoD" in row["name"]:
            exposed_us = row["time(us)"] * (1 - (row["under_computation_pctg"] or 0) / 100)
            cause = TraceCause.PAGEABLE_COPIES if "Pageable" in row["name"] else TraceCause.COPIES
            figures = {"name": row["name"], "count": row["count"], "exposed": Ns(exposed_us * 1000)}
            yield TraceFinding(cause, exposed_us / whole_us, "memory", figures)


def _cpu(trace: Trace, whole_us: float) -> Iterator[TraceFinding]:
    for row in breakdown.operators(trace)[:1]:
        part = row["self_cpu(us)"] / whole_us
        figures = {"name": row["name"], "part": part, "count": row["count"]}
        yield TraceFinding(TraceCause.OPERATOR, part, "operators", figures)
    parts = {row["idle_category"]: row["idle_time"] / whole_us for row in breakdown.idle(trace)}
    for category, cause in (("communication", TraceCause.OTHER_RANKS), ("other", TraceCause.PYTHON)):
        if part := parts.get(category):
            yield TraceFinding(cause, part, "idle", {"part": part})


def _critical_path(trace: Trace) -> Iterator[TraceFinding]:
    path = of_typical_step(trace)
    operators = [operator for operator in path.operators if not re.match(DATA_WAIT, operator.name)] if path else []
    if path is None or not operators:
        return
    most = min(operators, key=lambda operator: operator.without)  # the wait for data is another finding's
    kind, time = max(path.times().items(), key=lambda item: item[1])
    said = {KINDS[UNKNOWN], KINDS[DATA]} | (set() if len(trace.gpu) else {KINDS[COMMUNICATION]})
    if kind in said:  # of what nobody knows, or what another finding says: on a CPU, communication is a wait
        return
    figures = {"step": path.window.name, "kind": kind, "part": time / path.duration, "name": cut(most.name, 80)}
    figures |= {"launcher": most.launched_by, "without": Ns(most.without), "took": Ns(path.duration)}
    cause = TraceCause.CRITICAL_LAUNCH if most.launched_by else TraceCause.CRITICAL_PATH
    share = (1 - most.without / path.duration) * _share_of_steps(trace)
    yield TraceFinding(cause, share, "path_operators", figures)


def _whole_us(trace: Trace) -> float:
    """Return the time of all devices, with that of the steps before and after their kernels; without one, of a CPU."""
    if len(trace.gpu):
        return sum(time_of.whole for time_of in breakdown.device_times(trace)) / 1000
    return sum(row["kernel_time(us)"] for row in breakdown.temporal(trace))


def _share_of_steps(trace: Trace) -> float:
    """Return which share of the whole time is within steps; 1 for a trace without steps."""
    # Devices work at the same time, and a step is one for all of them.
    times = breakdown.device_times(trace)
    whole_us = max((each.whole / 1000 for each in times), default=0.0) if times else _whole_us(trace)
    within = sum(step.end - step.start for step in traced_steps(trace)) / 1000
    return min(within / whole_us, 1.0) if within and whole_us else 1.0


def _slowest_rank(traces: dict[Rank, Trace]) -> Iterator[TraceFinding]:
    table = stragglers(traces)
    if table and (step_us := table[0]["step(us)"]):
        behind_us = table[0]["behind(us)"]
        figures = {"slow": table[0]["rank"], "behind": Ns(behind_us * 1000), "quick": table[-1]["rank"]}
        yield TraceFinding(TraceCause.SLOW_RANK, behind_us / step_us, "stragglers", figures)


def _peaks(trace: Trace) -> Iterator[TraceFinding]:
    holders = memory.held(trace)
    for row in memory.peaks(trace):
        here = [holder for holder in holders if holder["device"] == row["device"]]
        before = [(holder, memory.BEFORE) for holder in here if holder["name"] == memory.BEFORE]
        operators = [(holder, f"{holder['name']} ({holder['phase']})") for holder in here[:2] if holder["phase"]]
        sources = [
            f"{Bytes(holder['bytes'])} ({holder['share_pctg']:.0f}%) from {source}"
            for holder, source in before + operators[:1]
        ]
        when = row["phase"] if row["step"] is None else f"{row['phase']}, step {row['step']}"
        figures = {"peak": Bytes(row["peak(bytes)"]), "device": row["device"], "when": when}
        figures |= {"unseen": f", without what was allocated {memory.BEFORE}" * (row["device"] == "cpu")}
        yield TraceFinding(TraceCause.PEAK, None, "held", figures | {"sources": " and ".join(sources)})


def _in_units(value: float, units: dict[str, float]) -> str:
    """Return a value in the largest unit of which it is at least one, or else in the smallest."""
    unit, size = next(((unit, size) for unit, size in units.items() if value >= size), [*units.items()][-1])
    return f"{value / size:.3g} {unit}"
