"""Steps of the training, and the phases that the training thread spent their time in."""

import re
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from workshop.probe.phases import TRACED, Phase
from workshop.traces.breakdown import CPU_COMMUNICATION, Row, exposed_communication
from workshop.traces.intervals import Ints, Spans, shared, union, without
from workshop.traces.trace import DATA_WAIT, SYNC, Trace, once
from workshop.traces.trace_files import Rank, number_of


class TracedStep(NamedTuple):
    """One step of the profiler. All times are in ns."""

    number: int
    start: int
    end: int
    phases: dict[Phase, int]
    """The time in each phase; the sum is the duration of the step."""
    communication: int
    """The time of communication while the training thread ran nothing."""
    device: int


@once
def traced_steps(trace: Trace) -> list[TracedStep]:
    """Return every `ProfilerStep`, in the order of time."""
    rows = _marked_steps(trace)
    steps = Spans(trace.events.ts[rows], trace.events.end[rows])
    numbers = [_number(trace, row) for row in rows]
    phases = with_the_rest(phase_spans(trace), steps, steps.end - steps.start)
    columns = (phase.tolist() for phase in phases.values())
    times = [dict(zip(TRACED, step, strict=True)) for step in zip(*columns, strict=True)]
    communicating, busy = shared(_communication(trace), steps), shared(trace.gpu.spans(), steps)
    fields = (numbers, steps.start.tolist(), steps.end.tolist(), times, communicating.tolist(), busy.tolist())
    return [TracedStep(*step) for step in zip(*fields, strict=True)]


def phase_spans(trace: Trace) -> dict[Phase, Spans]:
    """Return the time of each phase; time that belongs to several phases counts for the first of them."""
    here, spans_of = trace.on_main_thread, trace.events.spans
    calls, found = trace.launches
    to_device = trace.named(r"Memcpy HtoD")[trace.on_gpu] & (found >= 0)
    marked = here & trace.of("user_annotation")
    if str(Phase.FORWARD) in trace.names and not trace.of("cpu_op").any():  # in a report of nsys, phases are ranges
        times = {phase: spans_of(marked & trace.named(f"{phase}$")) for phase in TRACED if phase != Phase.OTHER}
    else:
        times = {
            Phase.DATA_WAIT: spans_of(here & trace.named(DATA_WAIT)),
            Phase.COPY: calls.spans(found[to_device]),
            Phase.OPTIMIZER: spans_of(here & trace.named(r"Optimizer\.(step|zero_grad)#")),
            Phase.BACKWARD: spans_of(trace.named(r"autograd::engine::evaluate_function")),
            Phase.FORWARD: spans_of(here & trace.of("cpu_op")),
        }
    taken = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
    phases: dict[Phase, Spans] = {}
    for phase, when in times.items():
        phases[phase] = without(when, taken)
        taken = union(np.concatenate([taken.start, when.start]), np.concatenate([taken.end, when.end]))
    return phases


def with_the_rest(phases: dict[Phase, Spans], windows: Spans, whole: Ints) -> dict[str, Ints]:
    """Return the time of each phase in each window, in the order of `TRACED`, and the rest of the whole as other."""
    times = {phase: shared(when, windows) for phase, when in phases.items()}
    times[Phase.OTHER] = whole - sum(times.values())
    return {str(phase): times[phase] for phase in TRACED}


def step_rows(trace: Trace) -> list[Row]:
    """Return the steps as rows, in µs."""
    return [
        {"step": step.number, "duration(us)": (step.end - step.start) / 1000}
        | {f"{name}(us)": time / 1000 for name, time in step.phases.items()}
        | {"device_busy(us)": step.device / 1000}
        for step in traced_steps(trace)
    ]


def stragglers(traces: dict[Rank, Trace]) -> list[Row]:
    """Return the own work of each rank, averaged over the steps that all ranks have; the slowest rank comes first.

    The quicker ranks wait in the communication for the slowest, so the steps of all ranks take equally long. The
    slowest rank is the one that hardly waits.
    """
    found: dict[int, dict[int, TracedStep]] = defaultdict(dict)
    for rank, trace in traces.items():
        found[number_of(rank)] |= {step.number: step for step in traced_steps(trace)}
    if not any(step.communication for each in found.values() for step in each.values()):
        return []  # no rank waits for another
    common = set.intersection(*(set(each) for each in found.values())) if len(found) > 1 else set()
    rows: list[Row] = []
    for rank, each in found.items() if common else ():
        length = sum(each[number].end - each[number].start for number in common) / len(common)
        waiting = sum(each[number].communication for number in common) / len(common)
        rows.append(
            {
                "rank": rank,
                "steps": len(common),
                "step(us)": length / 1000,
                "own_work(us)": (length - waiting) / 1000,
                "communication(us)": waiting / 1000,
            }
        )
    rows.sort(key=lambda row: -row["own_work(us)"])
    return [row | {"behind(us)": row["own_work(us)"] - rows[-1]["own_work(us)"]} for row in rows]


def step_numbers(trace: Trace) -> Ints:
    """Return the number of the step in which each event began, or was launched; else -1. Without steps, all are 0."""
    events, steps = trace.events, _marked_steps(trace)
    if not len(steps):
        return np.zeros(len(events), np.int64)
    began = events.ts.copy()
    began[trace.on_gpu] = trace.launched_at
    step = np.searchsorted(events.ts[steps], began, "right") - 1
    inside = (step >= 0) & (began < events.end[steps][step])
    numbers = np.array([_number(trace, row) for row in steps])
    return np.where(inside, numbers[step], -1)


def without_last_step(trace: Trace, include_last: bool) -> Trace:
    """Return a trace without what the CPU began in the last step of several, and without what that launched.

    The profiler often records the last step only in part. What comes behind the last step is left out in any case,
    and so is what nothing in the trace launched. A trace of a single step, or of none, is returned as it is.
    """
    events, steps = trace.events, _marked_steps(trace)
    if len({*events.name[steps].tolist()}) < 2:
        return trace
    until = events.end[steps].max() + 1 if include_last else events.ts[steps].max()
    on_device = trace.on_gpu | trace.of(*SYNC)
    kept = ~on_device & (events.ts < until)
    launched = events.correlation[kept & (events.correlation >= 0)]
    kept |= on_device & np.isin(events.correlation, launched)
    return replace(trace, events=events[kept], allocations=trace.allocations[trace.allocations.ts < until])


def _marked_steps(trace: Trace) -> Ints:
    rows = np.flatnonzero(trace.on_main_thread & trace.of("user_annotation") & trace.named(r"ProfilerStep#\d"))
    return rows[np.argsort(trace.events.ts[rows], kind="stable")]


def _number(trace: Trace, row: int) -> int:
    return number_in(trace.names[trace.events.name[row]])


def number_in(name: str) -> int:
    """Return the number in the name of a step, whatever a damaged file or a script has put behind it."""
    return int(re.split(r"\D+", name, maxsplit=2)[1])


def _communication(trace: Trace) -> Spans:
    """Return the communication while a device computes nothing, or the training thread runs no operator."""
    if len(trace.gpu):
        return union(*map(np.concatenate, zip(*exposed_communication(trace), strict=True)))
    communication = trace.named(CPU_COMMUNICATION)
    operators = trace.on_main_thread & trace.of("cpu_op") & ~communication
    return without(trace.events.spans(communication), trace.events.spans(operators))
