"""Builds the rows of a timeline: critical path, steps, training thread, communication, each stream of a device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workshop.traces import breakdown
from workshop.traces.event_columns import EventColumns
from workshop.traces.intervals import Ints
from workshop.traces.path import dependencies, of_typical_step
from workshop.traces.trace import DATA_WAIT, Trace
from workshop.traces.trace_files import Rank

KINDS = ("computation", "communication", "memory", "operator", "python", "delay", "wait", "step")

PATH_KINDS = {
    dependencies.OPERATOR: "operator",
    dependencies.PYTHON: "python",
    dependencies.KERNEL: "computation",
    dependencies.COMMUNICATION: "communication",
    dependencies.COPY: "memory",
    dependencies.LAUNCH_DELAY: "delay",
    dependencies.GAP: "delay",
    dependencies.SYNCHRONISATION: "delay",
    dependencies.UNKNOWN: "delay",
    dependencies.DATA: "wait",
}
"""How the kinds of a critical path are drawn."""


@dataclass(frozen=True)
class Lanes:
    """One row of the timeline, in which nested events are in lanes one below the other: columns of equal length."""

    label: str
    names: list[str]
    name: Ints
    """The index of the name in `names`."""
    kind: Ints
    """The index in `KINDS`."""
    lane: Ints
    ts: Ints
    """The start in ns, by the clock of the trace."""
    dur: Ints

    def only(self, rows: Any) -> "Lanes":
        """Return some of the events."""
        return Lanes(
            self.label, self.names, *(getattr(self, each)[rows] for each in ("name", "kind", "lane", "ts", "dur"))
        )


def lanes(rank: Rank, trace: Trace) -> Iterator[Lanes]:
    """Yield the rows of a trace that are not empty."""
    yield from _path(rank, trace)
    main = trace.on_main_thread
    annotated = trace.of("user_annotation")
    step = main & annotated & trace.named("ProfilerStep")
    waits = main & annotated & trace.named(DATA_WAIT)
    working = (main & trace.of("cpu_op")) | waits
    communication = trace.named(breakdown.CPU_COMMUNICATION) & ~working
    step_kind, wait, operator, talk = (KINDS.index(kind) for kind in ("step", "wait", "operator", "communication"))
    for label, rows, kinds in (
        ("steps", step, np.full(len(step), step_kind)),
        ("the thread that trains", working, np.where(waits, wait, operator)),
        ("communication", communication, np.full(len(step), talk)),
    ):
        if rows.any():
            yield _lanes(f"rank {rank}: {label}", trace.names, trace.events[rows], kinds[rows])
    kind_of = breakdown.kinds(trace)
    for device, stream in sorted({*zip(trace.gpu.device.tolist(), trace.gpu.stream.tolist(), strict=True)}):
        here = (trace.gpu.device == device) & (trace.gpu.stream == stream)
        label = f"rank {rank}: device {device}, stream {stream}"
        yield _lanes(label, trace.names, trace.gpu[here], kind_of[here])


def _path(rank: Rank, trace: Trace) -> Iterator[Lanes]:
    """Yield the pieces of the critical path; those that belong to no event are named after their kind."""
    path = of_typical_step(trace)
    if path is None:
        return
    graph = path.graph
    pieces = path.moments[graph.self_time[path.moments] > 0]
    own, kind, event = graph.self_time[pieces], graph.kind[pieces], graph.event[pieces]
    name = np.where(event >= 0, np.append(trace.events.name, 0)[event], len(trace.names) + kind)
    drawn = np.array([KINDS.index(PATH_KINDS[each]) for each in range(len(dependencies.KINDS))])[kind]
    label = f"rank {rank}: critical path, {path.window.name}"
    names = [*trace.names, *dependencies.KINDS]
    yield Lanes(label, names, name, drawn, np.zeros_like(own), graph.time[pieces] - own, own)


def _lanes(label: str, names: list[str], events: EventColumns, kind: Ints) -> Lanes:
    """Return a row of some events, in which an event is above those that it contains, down to eight levels."""
    order = np.lexsort((-events.dur, events.ts))
    ends: list[int] = []
    depths = []
    for start, end in zip(events.ts[order].tolist(), events.end[order].tolist(), strict=True):
        while ends and ends[-1] <= start:
            ends.pop()
        depths.append(len(ends))
        ends.append(end)
    lane = np.array(depths, np.int64)
    lane, shown = lane[lane < 8], order[lane < 8]
    return Lanes(label, names, events.name[shown], kind[shown], lane, events.ts[shown], events.dur[shown])
