"""Steps of the training, and where in them the time of the thread that trains went."""

from collections import defaultdict
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from workshop.probe.phases import Phase
from workshop.profiles.traces.breakdown import CPU_COMMUNICATION, Row, find_calls, spans
from workshop.profiles.traces.intervals import Spans, overlap, union, without
from workshop.profiles.traces.ranks import Rank, number_of
from workshop.profiles.traces.trace import Mask, Trace

_known: WeakKeyDictionary[Trace, list["TracedStep"]] = WeakKeyDictionary()


class TracedStep(NamedTuple):
    """One step of the profiler. All times are in ns."""

    number: int
    start: int
    end: int
    phases: dict[Phase, int]
    """The time in each phase; together they are the step."""
    communication: int
    """The time in which ranks talked to each other while the thread that trains ran nothing."""
    device: int
    """The time in which a device was busy."""


def traced_steps(trace: Trace) -> list[TracedStep]:
    """Return every `ProfilerStep`, in the order of time; they are computed once for a trace."""
    if trace not in _known:
        _known[trace] = _steps(trace)
    return _known[trace]


def _steps(trace: Trace) -> list[TracedStep]:
    here = trace.on_main_thread
    rows = np.flatnonzero(here & trace.of("user_annotation") & trace.named(r"ProfilerStep#\d"))
    rows = rows[np.argsort(trace.events.ts[rows], kind="stable")]
    phases = _phases(trace, here)
    talking = _communication(trace, here)
    busy = trace.gpu.spans()
    found = []
    for row in rows:
        start, end = int(trace.events.ts[row]), int(trace.events.end[row])
        step = Spans(np.array([start]), np.array([end]))
        times = {name: overlap(when, step).length for name, when in phases.items()}
        times[Phase.OTHER] = end - start - sum(times.values())
        number = int(trace.names[trace.events.name[row]].partition("#")[2].split()[0])
        times = {phase: times[phase] for phase in Phase}
        found.append(TracedStep(number, start, end, times, overlap(talking, step).length, overlap(busy, step).length))
    return found


def step_rows(trace: Trace) -> list[Row]:
    """Return the steps as rows, in µs."""
    return [
        {"step": step.number, "duration(us)": (step.end - step.start) / 1000}
        | {f"{name}(us)": time / 1000 for name, time in step.phases.items()}
        | {"device_busy(us)": step.device / 1000}
        for step in traced_steps(trace)
    ]


def stragglers(traces: dict[Rank, Trace]) -> list[Row]:
    """Return what each rank did by itself in an average step that all have; the first one makes the others wait.

    Ranks that are done earlier wait in the communication for those that are not, so that the steps of all are equally
    long. The slow one is the one that hardly waits.
    """
    found: dict[int, dict[int, TracedStep]] = defaultdict(dict)
    for rank, trace in traces.items():
        found[number_of(rank)] |= {step.number: step for step in traced_steps(trace)}
    if not any(step.communication for each in found.values() for step in each.values()):
        return []  # nobody waits for anybody
    common = set.intersection(*(set(each) for each in found.values())) if len(found) > 1 else set()
    rows: list[Row] = []
    for rank, each in found.items():
        here = [each[number] for number in sorted(common)]
        if here:
            length = sum(step.end - step.start for step in here) / len(here)
            waiting = sum(step.communication for step in here) / len(here)
            rows.append(
                {
                    "rank": rank,
                    "steps": len(here),
                    "step(us)": length / 1000,
                    "own_work(us)": (length - waiting) / 1000,
                    "communication(us)": waiting / 1000,
                }
            )
    rows.sort(key=lambda row: -row["own_work(us)"])
    return [row | {"behind(us)": row["own_work(us)"] - rows[-1]["own_work(us)"]} for row in rows]


def _phases(trace: Trace, here: Mask) -> dict[Phase, Spans]:
    """When each phase is on: what belongs to several belongs to the first."""
    copying, found = find_calls(trace)
    to_device = trace.named(r"Memcpy HtoD")[trace.on_gpu] & (found >= 0)
    copies = copying[found[to_device]]
    masks = {
        Phase.DATA_WAIT: here & trace.named(r"enumerate\(DataLoader\)"),
        Phase.COPY: None,
        Phase.OPTIMIZER: here & trace.named(r"Optimizer\.(step|zero_grad)#"),
        Phase.BACKWARD: trace.named(r"autograd::engine::evaluate_function"),
        Phase.FORWARD: here & trace.of("cpu_op"),
    }
    taken = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    phases = {}
    for name, mask in masks.items():
        when = copies.spans() if mask is None else trace.events.spans(mask)
        phases[name] = without(when, taken)
        taken = union(np.concatenate([taken.start, when.start]), np.concatenate([taken.end, when.end]))
    return phases


def _communication(trace: Trace, here: Mask) -> Spans:
    """On a device: when nothing is computed under it. On a CPU: when the thread that trains runs no operator."""
    if len(trace.gpu):
        return without(spans(trace, "COMMUNICATION"), spans(trace, "COMPUTATION"))
    talking = trace.named(CPU_COMMUNICATION)
    return without(trace.events.spans(talking), trace.events.spans(here & trace.of("cpu_op") & ~talking))
