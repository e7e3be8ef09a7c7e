"""The rows of a timeline: steps, the thread that trains, communication, and each stream of a device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workshop.profiles.traces import breakdown
from workshop.profiles.traces.intervals import Ints
from workshop.profiles.traces.ranks import Rank
from workshop.profiles.traces.trace import EventColumns, Mask, Trace

DEEPEST = 8
"""Operators inside of operators, that are drawn."""

KINDS = ("computation", "communication", "memory", "operator", "wait", "step")


@dataclass(frozen=True)
class Lanes:
    """One row of the timeline, with one lane below the other for what is nested. Columns of equal length."""

    label: str
    name: Ints
    """Number of the name in the trace."""
    kind: Ints
    """Number in `KINDS`."""
    lane: Ints
    ts: Ints
    """In ns, as in the trace."""
    dur: Ints

    def longest(self, most: int) -> "Lanes":
        """So many of them, in the order of time."""
        rows = np.sort(np.argsort(-self.dur, kind="stable")[:most])
        rows = rows[np.argsort(self.ts[rows], kind="stable")]
        return Lanes(self.label, *(getattr(self, each)[rows] for each in ("name", "kind", "lane", "ts", "dur")))


def lanes(rank: Rank, trace: Trace) -> Iterator[Lanes]:
    """All rows of a trace that have something in them."""
    main = trace.on_main_thread
    annotated = trace.of("user_annotation")
    step = main & annotated & trace.named("ProfilerStep")
    waits = main & annotated & trace.named(r"enumerate\(DataLoader\)")
    communication = trace.named(breakdown.CPU_COMMUNICATION)
    yield from _row(f"rank {rank}: steps", trace, step, "step")
    working = (main & trace.of("cpu_op")) | waits
    kinds = np.where(waits, KINDS.index("wait"), KINDS.index("operator"))
    yield from _row(f"rank {rank}: the thread that trains", trace, working, kinds)
    yield from _row(f"rank {rank}: communication", trace, communication & ~working, "communication")
    kind_of = breakdown.kinds(trace)
    for device, stream in sorted({*zip(trace.gpu.device.tolist(), trace.gpu.stream.tolist(), strict=True)}):
        here = (trace.gpu.device == device) & (trace.gpu.stream == stream)
        yield _lanes(f"rank {rank}: device {device}, stream {stream}", trace.gpu[here], kind_of[here])


def _row(label: str, trace: Trace, rows: Mask, kind: Any) -> Iterator[Lanes]:
    if rows.any():
        kinds = kind[rows] if isinstance(kind, np.ndarray) else np.full(np.count_nonzero(rows), KINDS.index(kind))
        yield _lanes(label, trace.events[rows], kinds)


def _lanes(label: str, events: EventColumns, kind: Ints) -> Lanes:
    """What contains another stands above it."""
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
