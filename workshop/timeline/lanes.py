"""Builds the rows of a timeline: steps, the training thread, communication, and each stream of a device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workshop.profiles.traces import breakdown
from workshop.profiles.traces.intervals import Ints
from workshop.profiles.traces.ranks import Rank
from workshop.profiles.traces.trace import EventColumns, Trace

DEEPEST = 8
"""The number of levels that are drawn of events inside events."""

KINDS = ("computation", "communication", "memory", "operator", "wait", "step")


@dataclass(frozen=True)
class Lanes:
    """One row of the timeline, in which nested events are in lanes one below the other: columns of equal length."""

    label: str
    name: Ints
    """The index of the name in `Trace.names`."""
    kind: Ints
    """The index in `KINDS`."""
    lane: Ints
    ts: Ints
    """The start in ns, by the clock of the trace."""
    dur: Ints

    def longest(self, most: int) -> "Lanes":
        """Return the longest events, in the order of time."""
        rows = np.sort(np.argsort(-self.dur, kind="stable")[:most])
        return self.only(rows[np.argsort(self.ts[rows], kind="stable")])

    def only(self, rows: Any) -> "Lanes":
        """Return some of the events."""
        return Lanes(self.label, *(getattr(self, each)[rows] for each in ("name", "kind", "lane", "ts", "dur")))


def lanes(rank: Rank, trace: Trace) -> Iterator[Lanes]:
    """Yield the rows of a trace that are not empty."""
    main = trace.on_main_thread
    annotated = trace.of("user_annotation")
    step = main & annotated & trace.named("ProfilerStep")
    waits = main & annotated & trace.named(r"enumerate\(DataLoader\)")
    working = (main & trace.of("cpu_op")) | waits
    communication = trace.named(breakdown.CPU_COMMUNICATION) & ~working
    step_kind, wait, operator, talk = (KINDS.index(kind) for kind in ("step", "wait", "operator", "communication"))
    for label, rows, kinds in (
        ("steps", step, np.full(len(step), step_kind)),
        ("the thread that trains", working, np.where(waits, wait, operator)),
        ("communication", communication, np.full(len(step), talk)),
    ):
        if rows.any():
            yield _lanes(f"rank {rank}: {label}", trace.events[rows], kinds[rows])
    kind_of = breakdown.kinds(trace)
    for device, stream in sorted({*zip(trace.gpu.device.tolist(), trace.gpu.stream.tolist(), strict=True)}):
        here = (trace.gpu.device == device) & (trace.gpu.stream == stream)
        yield _lanes(f"rank {rank}: device {device}, stream {stream}", trace.gpu[here], kind_of[here])


def _lanes(label: str, events: EventColumns, kind: Ints) -> Lanes:
    """Return a row of some events, in which an event is above those that it contains."""
    order = np.lexsort((-events.dur, events.ts))
    ends: list[int] = []
    depths = []
    for start, end in zip(events.ts[order].tolist(), events.end[order].tolist(), strict=True):
        while ends and ends[-1] <= start:
            ends.pop()
        depths.append(len(ends))
        ends.append(end)
    lane = np.array(depths, np.int64)
    shown = order[lane < DEEPEST]
    return Lanes(label, events.name[shown], kind[shown], lane[lane < DEEPEST], events.ts[shown], events.dur[shown])
