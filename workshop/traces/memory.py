"""Memory by phase of the training: what was allocated and released, its peak, and what was in use at the peak.

The bytes in use are those that torch's allocator counts. The allocator of a CPU counts only what it allocates while it
is recorded; that of CUDA counts everything.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from workshop.probe.phases import TRACED, Phase
from workshop.traces.breakdown import Row
from workshop.traces.event_columns import Allocations, around
from workshop.traces.intervals import Ints, groups, sums
from workshop.traces.steps import phase_spans, traced_steps
from workshop.traces.trace import Mask, Trace, once

DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse1"}

BEFORE = "before the recording"
OUTSIDE = "outside of operators"

AUTOGRAD = "autograd::engine::evaluate_function: "
"""What torch writes before the name of a node of the backward pass."""


class DeviceMemory(NamedTuple):
    """The allocations and releases on one device, in the order of time, and its peak."""

    device: str
    events: Allocations
    in_use: Ints
    phase: Ints
    """The index in `TRACED` of the phase that each event is in."""
    peak: int
    """The row of `events` from which on most bytes are in use."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use at once."""
        return int(self.in_use[self.peak])

    @property
    def alive(self) -> Mask:
        """Which events allocated what is in use at the peak."""
        position = np.arange(len(self.events))
        return (self.events.size > 0) & (position <= self.peak) & (_released(self.events) > self.peak)


def by_phase(trace: Trace) -> list[Row]:
    """Return what was allocated and released in each phase on each device, and the most that was in use then."""
    rows: list[Row] = []
    for memory in _devices(trace):
        for number, phase in enumerate(TRACED):
            here = memory.phase == number
            size = memory.events.size[here]
            if len(size):
                rows.append(
                    {
                        "device": memory.device,
                        "phase": str(phase),
                        "allocations": int(np.count_nonzero(size > 0)),
                        "allocated(bytes)": int(size[size > 0].sum()),
                        "releases": int(np.count_nonzero(size < 0)),
                        "released(bytes)": -int(size[size < 0].sum()),
                        # Until an event, as much was in use as before it.
                        "peak(bytes)": int(np.maximum(memory.in_use[here], memory.in_use[here] - size).max()),
                    }
                )
    return rows


def peaks(trace: Trace) -> list[Row]:
    """Return the most bytes that were in use on each device, when that was, and how much of it was recorded."""
    rows: list[Row] = []
    for memory in _in_use(trace):
        events, at = memory.events, memory.peak
        recorded = int(events.size[memory.alive].sum())
        time = int(events.ts[at])
        within = (step.number for step in traced_steps(trace) if step.start <= time < step.end)
        rows.append(
            {
                "device": memory.device,
                "peak(bytes)": memory.peak_bytes,
                "reserved(bytes)": int(events.reserved[at]),
                "step": next(within, None),
                "phase": str(TRACED[memory.phase[at]]),
                "recorded(bytes)": recorded,
                "recorded_pctg": 100 * recorded / memory.peak_bytes,
            }
        )
    return rows


def held(trace: Trace) -> list[Row]:
    """Return what was in use at the peak of each device by the operators that allocated it; the largest comes first.

    Such an operator is the outermost on its thread. "allocated_in" is the innermost, which is often `aten::empty`.
    """
    rows: list[Row] = []
    for memory in _in_use(trace):
        alive = memory.alive
        found = _holders(trace, memory.events[alive], memory.phase[alive])
        before = memory.peak_bytes - sum(row["bytes"] for row in found)
        if before > 0:
            found.append({"name": BEFORE, "allocated_in": None, "phase": None, "count": None, "bytes": before})
        found.sort(key=lambda row: -row["bytes"])
        share = 100 / memory.peak_bytes
        rows += [{"device": memory.device} | row | {"share_pctg": share * row["bytes"]} for row in found]
    return rows


def _holders(trace: Trace, events: Allocations, phase: Ints) -> list[Row]:
    """Return the bytes and the number of some allocations by operator and phase."""
    ops = trace.events[trace.of("cpu_op")]
    innermost, outermost = around(ops, events)
    names = np.append(ops.name, -1)  # of no operator
    keys = np.stack([names[outermost], names[innermost], phase], axis=1)
    groups, group, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    size = sums(group.reshape(-1), events.size, len(groups))
    words = [*(name.removeprefix(AUTOGRAD) for name in trace.names), OUTSIDE]
    return [
        {
            "name": words[outer],
            "allocated_in": words[inner],
            "phase": str(TRACED[number]),
            "count": count,
            "bytes": in_bytes,
        }
        for (outer, inner, number), count, in_bytes in zip(groups.tolist(), counts.tolist(), size.tolist(), strict=True)
    ]


def _in_use(trace: Trace) -> Iterator[DeviceMemory]:
    """Yield the memory of each device of which something is known to be in use."""
    return (memory for memory in _devices(trace) if memory.peak_bytes > 0)


@once
def _devices(trace: Trace) -> list[DeviceMemory]:
    """Return the memory of each device."""
    memories = []
    events = trace.allocations
    phase = _phase_at(trace, events.ts) if len(events) else events.ts
    for kind, number, here in groups(events.device_type, events.device_id):
        found = events[here]
        in_use = found.allocated if found.allocated.any() else np.cumsum(found.size)
        name = DEVICE_TYPES.get(kind, f"device of type {kind}")
        place = name if number < 0 else f"{name}:{number}"
        memories.append(DeviceMemory(place, found, in_use, phase[here], int(np.argmax(in_use))))
    return memories


def _phase_at(trace: Trace, ts: Ints) -> Ints:
    """Return the index in `TRACED` of the phase at some times."""
    found = np.full(len(ts), TRACED.index(Phase.OTHER))
    for phase, when in phase_spans(trace).items():
        last = np.searchsorted(when.start, ts, side="right") - 1
        found[(last >= 0) & (ts < np.append(when.end, 0)[last])] = TRACED.index(phase)
    return found


def _released(events: Allocations) -> Ints:
    """Return the row in which what each row allocated was released, or its address used again; else the number of rows.

    The rows are of one device.
    """
    rows = np.arange(len(events))
    order = np.lexsort((rows, events.address))
    same = events.address[order][1:] == events.address[order][:-1]
    released = np.full(len(rows), len(rows))
    released[order[:-1][same]] = order[1:][same]
    return released
