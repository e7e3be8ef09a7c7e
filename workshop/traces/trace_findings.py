"""Says in words where a training loses time by its traces, what that costs, and where most memory was in use."""

import re
from dataclasses import dataclass
from statistics import median

from workshop.probe.phases import Phase
from workshop.terminal import cut
from workshop.traces import breakdown, memory
from workshop.traces.path import critical_path
from workshop.traces.path.dependencies import COMMUNICATION, DATA, KINDS, UNKNOWN
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace import DATA_WAIT, Trace
from workshop.traces.trace_files import Rank

LONG_STEP = 1.5
"""Medians of all steps: a step that takes more is long."""


@dataclass(frozen=True)
class TraceFinding:
    """One thing that costs time, or a fact about memory."""

    share: float | None
    """The largest share of the whole time that it may cost; None for a fact."""
    text: str
    topic: str
    table: str
    """The name of the table that shows it."""

    def __str__(self) -> str:
        return self.text


def findings(traces: dict[Rank, Trace]) -> list[TraceFinding]:
    """Return what costs 3 % of the time, or more, the most first; then the peaks of the memory, if it was recorded."""
    costs: list[TraceFinding] = []
    facts: list[TraceFinding] = []
    for rank, trace in traces.items():
        who = "" if len(traces) == 1 else f"rank {rank}: "
        costs += [*_data_wait(who, trace), *_long_steps(who, trace)]
        if whole_us := _whole_us(trace):
            costs += (_device if len(trace.gpu) else _cpu)(who, trace, whole_us)
        costs += _critical_path(who, trace)
        facts += _peaks(who, trace)
    costly = [cost for cost in costs + _slowest_rank(traces) if (cost.share or 0.0) >= 0.03]
    return sorted(costly, key=lambda each: -(each.share or 0.0)) + facts


def all_clear(traces: dict[Rank, Trace]) -> str:
    """Return what to say of traces without findings: that nothing costs much only if there is what could."""
    if any(_whole_us(trace) for trace in traces.values()):
        return "Nothing in it costs much."
    return "Neither an operator nor a kernel was recorded, so it does not tell what costs time."


def _data_wait(who: str, trace: Trace) -> list[TraceFinding]:
    steps = traced_steps(trace)
    whole = sum(step.end - step.start for step in steps)
    waiting = sum(step.phases[Phase.DATA_WAIT] for step in steps)
    if not whole:
        return []
    text = f"{who}the training waits for data for {waiting / whole:.0%} of its steps ({_time(waiting)})"
    path = critical_path.of_typical_step(trace)
    if path and (without := [operator.without for operator in path.operators if re.match(DATA_WAIT, operator.name)]):
        text += f"; without this, {path.window.name} would take {_time(without[0])} instead of {_time(path.duration)}"
    share = waiting / whole * _share_of_steps(trace)
    return [TraceFinding(share, f"{text}; load it faster", "data wait", "steps")]


def _long_steps(who: str, trace: Trace) -> list[TraceFinding]:
    lengths = [step.end - step.start for step in traced_steps(trace)]
    if len(lengths) < 5:
        return []  # among fewer, a single long one does not stand out
    median_ns = median(lengths)
    excess = [length - median_ns for length in lengths if length > LONG_STEP * median_ns]
    text = (
        f"{who}{len(excess)} of {len(lengths)} steps took more than {LONG_STEP} times as long as the median, "
        f"{_time(median_ns)}: {_time(sum(excess))} more in all. What happened then that does not happen in the others?"
    )
    return [TraceFinding(sum(excess) / sum(lengths), text, "long steps", "steps")]


def _device(who: str, trace: Trace, whole_us: float) -> list[TraceFinding]:
    times = breakdown.device_times(trace)
    outside = {"before": sum(each.before for each in times) / 1e9, "after": sum(each.after for each in times) / 1e9}
    idle_s = breakdown.device_idle(trace) | outside
    idle_share = 1e6 * sum(idle_s.values()) / whole_us
    found = []
    waits = "one stream's wait for another, or for an event"
    record_cpu = "" if len(trace.launches[0]) else "; record the CPU, too"
    not_known = "for a reason that the trace does not show: the kernels were launched in time"
    for cause, says in (
        ("before", "before its first kernel; see what the CPU does until then"),
        ("host_wait", "host wait: the CPU launches too late; see what it does meanwhile"),
        ("kernel_wait", "short gaps between kernels; fewer and larger ones help: torch.compile, CUDA graphs"),
        ("other", waits if breakdown.waits_for_others(trace) else not_known),
        ("unknown", f"before kernels whose launch is not in the trace, so the cause is not known{record_cpu}"),
        ("after", "after its last kernel; see what the CPU does from then on"),
    ):
        if idle_share:
            share = idle_s[cause] / sum(idle_s.values())
            text = f"{who}the device is idle for {idle_share:.0%} of the time, and {share:.0%} of that is {says}"
            table = ("steps" if traced_steps(trace) else "temporal") if cause in outside else "idle"
            found.append(TraceFinding(idle_share * share, text, cause, table))
    communication = breakdown.comm_comp(trace)
    if (hidden := communication["comp_comm_overlap_pctg"]) is not None:
        open_us = communication["communication_time(us)"] * (1 - hidden / 100)
        text = f"{who}{hidden:.0f}% of the communication is hidden under computation; {_time(open_us * 1000)} are not"
        found.append(TraceFinding(open_us / whole_us, text, "communication", "overlap"))
    for row in breakdown.copies(trace):
        if "HtoD" in row["name"]:
            open_us = row["time(us)"] * (1 - (row["under_computation_pctg"] or 0) / 100)
            how = "pin the memory they come from, and copy ahead" if "Pageable" in row["name"] else "copy ahead"
            text = f"{who}{row['name']}: {row['count']} copies take {_time(open_us * 1000)} under no computation; {how}"
            found.append(TraceFinding(open_us / whole_us, text, "copies", "memory"))
    return found


def _cpu(who: str, trace: Trace, whole_us: float) -> list[TraceFinding]:
    found = []
    for row in breakdown.operators(trace)[:1]:
        share = row["self_cpu(us)"] / whole_us
        text = f"{who}{row['name']} takes {share:.0%} of the time, in {row['count']} calls; find the line that calls it"
        found.append(TraceFinding(share, text, "operators", "operators"))
    shares = {row["idle_category"]: row["idle_time"] / whole_us for row in breakdown.idle(trace)}
    if share := shares.get("communication"):
        text = f"{who}for {share:.0%} of the time, the thread that trains waits for the other ranks"
        found.append(TraceFinding(share, text, "communication", "idle"))
    if share := shares.get("other"):
        text = f"{who}for {share:.0%} of the time, the thread that trains runs neither an operator nor the data loader"
        text += ": Python, or it waits; a sampling profile tells which"
        found.append(TraceFinding(share, text, "Python", "idle"))
    return found


def _critical_path(who: str, trace: Trace) -> list[TraceFinding]:
    path = critical_path.of_typical_step(trace)
    operators = [operator for operator in path.operators if not re.match(DATA_WAIT, operator.name)] if path else []
    if path is None or not operators:
        return []
    most = min(operators, key=lambda operator: operator.without)  # the wait for data is another finding's
    kind, time = max(path.times().items(), key=lambda each: each[1])
    said = {KINDS[UNKNOWN], KINDS[DATA]} | (set() if len(trace.gpu) else {KINDS[COMMUNICATION]})
    if kind in said:  # of what nobody knows, or what another finding says: on a CPU, communication is a wait
        return []
    name = cut(most.name, 80)
    launched = f", launched by {most.launched_by}," if most.launched_by else ""
    text = (
        f"{who}{path.window.name} is bound by {kind} for {time / path.duration:.0%} of its time. On its critical path, "
        f"{name}{launched} counts most: without it, this would take {_time(most.without)} instead of "
        f"{_time(path.duration)}"
    )
    share = (1 - most.without / path.duration) * _share_of_steps(trace)
    return [TraceFinding(share, text, "critical path", "path_operators")]


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


def _slowest_rank(traces: dict[Rank, Trace]) -> list[TraceFinding]:
    table = stragglers(traces)
    if not table or not table[0]["step(us)"]:
        return []
    slowest = table[0]
    text = (
        f"rank {slowest['rank']} is the slowest: in a step it works {_time(slowest['behind(us)'] * 1000)} longer by "
        f"itself than rank {table[-1]['rank']}, which waits for it"
    )
    return [TraceFinding(slowest["behind(us)"] / slowest["step(us)"], text, "slow rank", "stragglers")]


def _peaks(who: str, trace: Trace) -> list[TraceFinding]:
    found = []
    holders = memory.held(trace)
    for row in memory.peaks(trace):
        when = row["phase"] if row["step"] is None else f"{row['phase']}, step {row['step']}"
        text = f"{who}at most {_size(row['peak(bytes)'])} of memory on {row['device']} were in use at once ({when})"
        if row["device"] == "cpu":
            text += f", without what was allocated {memory.BEFORE}"
        here = [holder for holder in holders if holder["device"] == row["device"]]
        before = [holder for holder in here if holder["name"] == memory.BEFORE]
        largest = [holder for holder in here if holder["name"] != memory.BEFORE][:1]
        sources = [(each, memory.BEFORE) for each in before]
        sources += [(holder, f"{holder['name']} ({holder['phase']})") for holder in largest]
        parts = [f"{_size(each['bytes'])} ({each['share_pctg']:.0f}%) from {source}" for each, source in sources]
        found.append(TraceFinding(None, f"{text}; of that {' and '.join(parts)}", "memory", "held"))
    return found


def _size(size: float) -> str:
    return _in_units(size, {"GB": 1e9, "MB": 1e6, "kB": 1e3, "bytes": 1})


def _time(ns: float) -> str:
    return _in_units(ns, {"s": 1e9, "ms": 1e6, "µs": 1e3})


def _in_units(value: float, units: dict[str, float]) -> str:
    """Return a value in the largest unit of which it is at least one, or else in the smallest."""
    unit, size = next(((unit, size) for unit, size in units.items() if value >= size), [*units.items()][-1])
    return f"{value / size:.3g} {unit}"
