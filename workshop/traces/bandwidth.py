"""How many bytes per second copies and sets move, over time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workshop.traces.breakdown import Row
from workshop.traces.intervals import Ints
from workshop.traces.trace import COPY, SET, Trace, matching


class BandwidthChanges(NamedTuple):
    """The changes of the bandwidth of each kind of copy: columns of equal length, sorted by device, kind and time."""

    device: Ints
    kind: NDArray[np.str_]
    """The kind of copy: its direction, if its name says it, as in "Memcpy DtoH"; or "Memset"."""
    ts: Ints
    bandwidth: NDArray[np.float64]
    """The sum over all copies of the kind that run from then on, in GB/s; 0 if none does."""


def changes(trace: Trace) -> BandwidthChanges:
    """Return each change of a bandwidth. It is the profiler's, or else the bytes of a copy over its time."""
    events = trace.events[trace.of(*COPY, *SET)]
    dur = np.where(events.dur > 0, events.dur, 1000)  # what was written as 0 µs counts as one
    written = (events.bandwidth >= 0) & np.isfinite(events.bandwidth)
    speed = np.where(written, events.bandwidth, events.bytes / dur)
    kind = _kinds(trace)[events.name]
    running = np.repeat([1, -1], len(events))
    device, kind, speed = np.tile(events.device, 2), np.tile(kind, 2), np.tile(speed, 2) * running
    ts = np.concatenate([events.ts, events.ts + dur])
    order = np.lexsort((running, ts, kind, device))  # one that ends is not added to one that begins then
    together = np.cumsum(speed[order])
    none = np.cumsum(running[order]) == 0
    together -= _last_where(none, together)  # what is left of sums that should be 0
    return BandwidthChanges(device[order], kind[order], ts[order], np.where(none, 0.0, together))


def bandwidth_rows(trace: Trace) -> list[Row]:
    """Return the bandwidth of each kind of copy while one runs, in GB/s: the mean over that time, and the most."""
    found = changes(trace)
    rows: list[Row] = []
    for device, kind in sorted({*zip(found.device.tolist(), found.kind.tolist(), strict=True)}):
        here = (found.device == device) & (found.kind == kind)
        speed, lasting = found.bandwidth[here][:-1], np.diff(found.ts[here])
        time = int(lasting[speed > 0].sum())
        if time:
            stats = {
                "mean(GB/s)": float((speed * lasting).sum() / time),
                "max(GB/s)": float(speed[lasting > 0].max()),
            }
            rows.append({"device": device, "kind": kind, "time(us)": time / 1000} | stats)
    return rows


def _kinds(trace: Trace) -> NDArray[np.str_]:
    known = matching(trace.names, r"Memcpy \w+to\w").tolist()
    sets = matching(trace.names, "(hip)?Memset").tolist()
    return np.array(
        [
            "Memset" if is_set else name[: len("Memcpy DtoD")] if is_known else "Memcpy Unknown"
            for name, is_known, is_set in zip(trace.names or [""], known, sets, strict=True)
        ]
    )


def _last_where(which: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row the value of the last row up to there for which something holds, or 0."""
    row = np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
    return np.where(row >= 0, values[row], 0.0)
