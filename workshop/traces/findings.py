"""Says in words where a training loses time by its traces, what that costs, and where most memory was in use."""

import re
from dataclasses import dataclass
from statistics import median

from workshop.probe.phases import Phase
from workshop.traces import breakdown, memory
from workshop.traces.operators import operators
from workshop.traces.path import critical_path
from workshop.traces.path.dependencies import DATA, KINDS, UNKNOWN
from workshop.traces.path.window import DATA_WAIT
from workshop.traces.ranks import Rank
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace import Trace

MIN_SHARE = 0.03
"""The least share of the time that is worth a sentence."""

MIN_STEPS = 5
"""The number of steps from which on a single one can be told from the others."""

LONG_STEP = 1.5
"""A step that takes so many times as long as the median is a long one."""

MAX_NAME = 80
"""The number of characters of a kernel's name that a sentence can bear."""


@dataclass(frozen=True)
class Finding:
    """One thing that costs time, or a fact about memory."""

    share: float | None
    """The largest share of the whole time that it may cost; None for a fact."""
    text: str
    part: str = ""
    """The part of the workshop that teaches the remedy."""

    def __str__(self) -> str:
        return f"{self.text}{f' ({self.part})' if self.part else ''}"


def findings(traces: dict[Rank, Trace]) -> list[Finding]:
    """Return what costs time, what costs most comes first; then the peaks of the memory, if it was recorded."""
    found: list[Finding] = []
    facts: list[Finding] = []
    for rank, trace in traces.items():
        who = "" if len(traces) == 1 else f"rank {rank}: "
        found += [*_data_wait(who, trace), *_long_steps(who, trace)]
        found += _device(who, trace) if len(trace.gpu) else _cpu(who, trace)
        found += _critical_path(who, trace)
        facts += _peaks(who, trace)
    found += _slowest_rank(traces)
    costs = [(each.share, each) for each in found if each.share is not None and each.share >= MIN_SHARE]
    return [each for _, each in sorted(costs, key=lambda pair: -pair[0])] + facts


def _data_wait(who: str, trace: Trace) -> list[Finding]:
    steps = traced_steps(trace)
    whole = sum(step.end - step.start for step in steps)
    waiting = sum(step.phases[Phase.DATA_WAIT] for step in steps)
    if not whole:
        return []
    text = f"{who}the training waits for data for {waiting / whole:.0%} of its steps ({_time(waiting)})"
    path = critical_path.of_typical_step(trace)
    if path and (without := [each.without for each in path.operators if re.match(DATA_WAIT, each.name)]):
        text += f"; without this, {path.window.name} would take {_time(without[0])} instead of {_time(path.duration)}"
    share = waiting / whole * _share_of_steps(trace)
    return [Finding(share, f"{text}; load it faster", "parts 3 to 5")]


def _long_steps(who: str, trace: Trace) -> list[Finding]:
    lengths = [step.end - step.start for step in traced_steps(trace)]
    if len(lengths) < MIN_STEPS:
        return []
    usual = median(lengths)
    excess = [length - usual for length in lengths if length > LONG_STEP * usual]
    text = (
        f"{who}{len(excess)} of {len(lengths)} steps took more than {LONG_STEP} times as long as the median, "
        f"{_time(usual)}: {_time(sum(excess))} more in all. What happened then that does not happen in the others?"
    )
    return [Finding(sum(excess) / sum(lengths), text, "part 11")]


def _device(who: str, trace: Trace) -> list[Finding]:
    whole_us = sum(row["kernel_time(us)"] for row in breakdown.temporal(trace))
    if not whole_us:
        return []
    idle_s = breakdown.device_idle(trace)
    idle_share = 1e6 * sum(idle_s.values()) / whole_us
    found = []
    for cause, says, part in (
        ("host_wait", "host wait: the CPU launches too late; see what it does meanwhile", "parts 3 to 5"),
        ("kernel_wait", "short gaps between kernels; fewer and larger ones help: torch.compile, CUDA graphs", ""),
        ("other", "one stream's wait for another, or for an event", ""),
    ):
        if idle_share:
            share = idle_s[cause] / sum(idle_s.values())
            text = f"{who}the device is idle for {idle_share:.0%} of the time, and {share:.0%} of that is {says}"
            found.append(Finding(idle_share * share, text, part))
    communication = breakdown.comm_comp(trace)
    if (hidden := communication["comp_comm_overlap_pctg"]) is not None:
        open_us = communication["communication_time(us)"] * (1 - hidden / 100)
        text = f"{who}{hidden:.0f}% of the communication is hidden under computation; {_time(open_us * 1000)} are not"
        found.append(Finding(open_us / whole_us, text, "part 10"))
    for row in breakdown.copies(trace):
        if "HtoD" in row["name"]:
            open_us = row["time(us)"] * (1 - (row["under_computation_pctg"] or 0) / 100)
            how = "pin the memory they come from, and copy ahead" if "Pageable" in row["name"] else "copy ahead"
            text = f"{who}{row['name']}: {row['count']} copies take {_time(open_us * 1000)} under no computation; {how}"
            found.append(Finding(open_us / whole_us, text, "part 6"))
    return found


def _cpu(who: str, trace: Trace) -> list[Finding]:
    whole_us = sum(row["kernel_time(us)"] for row in breakdown.temporal(trace))
    if not whole_us:
        return []
    found = []
    for row in operators(trace)[:1]:
        share = row["self_cpu(us)"] / whole_us
        text = f"{who}{row['name']} takes {share:.0%} of the time, in {row['count']} calls; find the line that calls it"
        found.append(Finding(share, text, "part 9"))
    shares = {row["idle_category"]: row["idle_time"] / whole_us for row in breakdown.idle(trace)}
    if share := shares.get("communication"):
        text = f"{who}for {share:.0%} of the time, the thread that trains waits for the other ranks"
        found.append(Finding(share, text, "part 10"))
    if share := shares.get("other"):
        text = f"{who}for {share:.0%} of the time, the thread that trains runs neither an operator nor the data loader"
        found.append(Finding(share, f"{text}: Python, or it waits; a sampling profile tells which", "part 7"))
    return found


def _critical_path(who: str, trace: Trace) -> list[Finding]:
    path = critical_path.of_typical_step(trace)
    if path is None or not path.operators:
        return []
    most = min(path.operators, key=lambda each: each.without)
    kind, time = max(path.times().items(), key=lambda each: each[1])
    if kind in (KINDS[UNKNOWN], KINDS[DATA]):  # of what nobody knows, or what another finding says
        return []
    name = most.name if len(most.name) <= MAX_NAME else f"{most.name[:MAX_NAME]}..."
    launched = f", launched by {most.launched_by}," if most.launched_by else ""
    text = (
        f"{who}{path.window.name} is bound by {kind} for {time / path.duration:.0%} of its time. On its critical path, "
        f"{name}{launched} counts most: without it, this would take {_time(most.without)} instead of "
        f"{_time(path.duration)}"
    )
    return [Finding((1 - most.without / path.duration) * _share_of_steps(trace), text, "part 8")]


def _share_of_steps(trace: Trace) -> float:
    """Return which share of the whole time is within steps; 1 for a trace without steps."""
    whole_us = sum(row["kernel_time(us)"] for row in breakdown.temporal(trace))
    within = sum(step.end - step.start for step in traced_steps(trace)) / 1000
    return min(within / whole_us, 1.0) if within and whole_us else 1.0


def _slowest_rank(traces: dict[Rank, Trace]) -> list[Finding]:
    table = stragglers(traces)
    if not table:
        return []
    slowest = table[0]
    share = slowest["behind(us)"] / slowest["step(us)"] if slowest["step(us)"] else 0.0
    text = (
        f"rank {slowest['rank']} is the slowest: in a step it works {_time(slowest['behind(us)'] * 1000)} longer by "
        f"itself than rank {table[-1]['rank']}, which waits for it"
    )
    return [Finding(share, text, "part 10")]


def _peaks(who: str, trace: Trace) -> list[Finding]:
    found = []
    holders = memory.held(trace)
    for row in memory.peaks(trace):
        when = row["phase"] if row["step"] is None else f"{row['phase']}, step {row['step']}"
        text = f"{who}at most {_size(row['peak(bytes)'])} of memory on {row['device']} were in use at once ({when})"
        if row["device"] == "cpu":
            text += f", without what was allocated {memory.BEFORE}"
        here = [each for each in holders if each["device"] == row["device"]]
        before = [each for each in here if each["name"] == memory.BEFORE]
        largest = [each for each in here if each["name"] != memory.BEFORE][:1]
        sources = [(each, memory.BEFORE) for each in before]
        sources += [(each, f"{each['name']} ({each['phase']})") for each in largest]
        parts = [f"{_size(each['bytes'])} ({each['share_pctg']:.0f}%) from {source}" for each, source in sources]
        found.append(Finding(None, f"{text}; of that {' and '.join(parts)}"))
    return found


def _size(size: float) -> str:
    for unit, bytes_in_it in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_in_it:
            return f"{size / bytes_in_it:.3g} {unit}"
    return f"{size:.0f} bytes"


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} µs"
