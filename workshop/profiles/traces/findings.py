"""Says in words where a training loses time by its traces, what that costs, and what to do about it."""

from dataclasses import dataclass

from workshop.probe.phases import Phase
from workshop.profiles.traces import breakdown, critical_path
from workshop.profiles.traces.operators import operators
from workshop.profiles.traces.ranks import Rank
from workshop.profiles.traces.steps import stragglers, traced_steps
from workshop.profiles.traces.trace import Trace

LEAST_SHARE = 0.03
"""The least share of the time that is worth a sentence."""

LONGEST_NAME = 80
"""The number of characters of a kernel's name that a sentence can bear."""


@dataclass(frozen=True)
class Finding:
    """One thing that costs time."""

    share: float
    """The largest share of the whole time that it may cost."""
    text: str
    part: str = ""
    """The part of the workshop that teaches the remedy."""

    def __str__(self) -> str:
        return f"{self.text}{f' ({self.part})' if self.part else ''}"


def findings(traces: dict[Rank, Trace]) -> list[Finding]:
    """Return what costs time; what costs most comes first."""
    found: list[Finding] = []
    for rank, trace in traces.items():
        who = "" if len(traces) == 1 else f"rank {rank}: "
        found += _data_wait(who, trace)
        found += _device(who, trace) if len(trace.gpu) else _cpu(who, trace)
        found += _critical_path(who, trace)
    found += _slowest_rank(traces)
    return sorted((each for each in found if each.share >= LEAST_SHARE), key=lambda each: -each.share)


def _data_wait(who: str, trace: Trace) -> list[Finding]:
    steps = traced_steps(trace)
    whole = sum(step.end - step.start for step in steps)
    waiting = sum(step.phases[Phase.DATA_WAIT] for step in steps)
    if not whole:
        return []
    text = f"{who}the training waits for data for {waiting / whole:.0%} of its steps ({_time(waiting)}); load it faster"
    return [Finding(waiting / whole, text, "parts 3 and 5")]


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
        text = f"{who}{hidden:.0f} % of the communication is hidden under computation; {_time(open_us * 1000)} are not"
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
        found.append(Finding(share, f"{who}{row['name']} takes {share:.0%} of the time, in {row['count']} calls"))
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
    operators = path.operators(trace) if path else []
    if path is None or not operators:
        return []
    most = min(operators, key=lambda each: each.without)
    kind, time = max(path.times().items(), key=lambda each: each[1])
    name = most.name if len(most.name) <= LONGEST_NAME else f"{most.name[:LONGEST_NAME]}..."
    launched = f", launched by {most.launched_by}," if most.launched_by else ""
    text = (
        f"{who}{path.window.name} is bound by {kind} for {time / path.duration:.0%} of its time; without {name}"
        f"{launched} it would take {_time(most.without)} instead of {_time(path.duration)}"
    )
    return [Finding(1 - most.without / path.duration, text)]


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


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} µs"
