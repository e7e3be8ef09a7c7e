"""What changes over time on a device: how much is launched that has not begun, and how fast copies move bytes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from workshop.traces.breakdown import Row
from workshop.traces.intervals import Columns, Ints, Spans, groups, overlap, union, without
from workshop.traces.trace import COPY, SET, Trace, matching

FULL = 1024
"""Launches that have not begun, which a stream of CUDA takes at most: from then on, the launching calls wait."""

ALL_STREAMS = "all"


@dataclass(frozen=True)
class QueueChanges(Columns):
    """The changes of all queues, sorted by device, stream and time."""

    device: Ints
    stream: Ints
    ts: Ints
    length: Ints
    """The number of launches that have not begun on the device."""
    event: Ints
    """The `EventColumns.index` of the launching call, or of the event that began."""


def queue_changes(trace: Trace) -> QueueChanges:
    """Return each change of a queue: the begin of a launching call makes it longer, the begin on the device shorter.

    A graph is one launch for each stream that it runs on, however many kernels it has.
    """
    calls, events = trace.launched
    order = np.argsort(events.ts, kind="stable")
    keys = np.stack([calls.index, events.device, events.stream])[:, order]
    first = order[np.unique(keys, axis=1, return_index=True)[1]]
    calls, events = calls[first], events[first]
    step = np.repeat([1, -1], len(events))
    device, stream = np.tile(events.device, 2), np.tile(events.stream, 2)
    ts, index = np.concatenate([calls.ts, events.ts]), np.concatenate([calls.index, events.index])
    order = np.lexsort((-step, ts, stream, device))
    # The changes of each stream sum up to 0, so the sum over all of them begins anew with each stream.
    return QueueChanges(device[order], stream[order], ts[order], np.cumsum(step[order]), index[order])


def time_at_least(ts: Ints, length: Ints, limit: int) -> Spans:
    """Return the time in which one queue, given by its changes, is at a length or over it."""
    here = length[:-1] >= limit
    return union(ts[:-1][here], ts[1:][here])


def queue_rows(trace: Trace, full: int = FULL) -> list[Row]:
    """Return how well the queue of each stream is filled, from the first launch for its device to the device's end.

    An empty queue does no harm while the device is busy: starved is the time in which it has nothing to do. A device
    with several streams has a row for all of them, too; it is starved when nothing is launched for any of them.
    """
    found = queue_changes(trace)
    rows = []
    for device in np.unique(found.device):
        of_device = found[found.device == device]
        streams = np.unique(of_device.stream).tolist()
        busy = trace.gpu.spans(trace.gpu.device == device)
        window = Spans(of_device.ts.min(keepdims=True), busy.end[-1:])
        for stream in [ALL_STREAMS] * (len(streams) > 1) + streams:
            here = _together(of_device) if stream == ALL_STREAMS else of_device[of_device.stream == stream]
            rows.append({"device": int(device), "stream": stream} | _filled(here, window, without(window, busy), full))
    return rows


def _together(queues: QueueChanges) -> QueueChanges:
    """Return the changes of several queues as those of one."""
    step = np.diff(queues.length, prepend=0)
    order = np.lexsort((-step, queues.ts))
    return replace(queues[order], length=np.cumsum(step[order]))


def _filled(queue: QueueChanges, window: Spans, idle: Spans, full: int) -> Row:
    whole = max(window.length, 1)
    lasting = np.diff(queue.ts, append=window.end[-1:])
    empty = without(window, time_at_least(queue.ts, queue.length, 1))
    starved = overlap(empty, idle)
    return {
        "launches": len(queue) // 2,
        "mean_length": float((queue.length * lasting).sum() / whole),
        "max_length": int(queue.length.max()),
        "empty_time_pctg": 100 * empty.length / whole,
        "starved_time_pctg": 100 * starved.length / whole,
        "longest_starved(us)": int((starved.end - starved.start).max(initial=0)) / 1000,
        "full_time_pctg": 100 * time_at_least(queue.ts, queue.length, full).length / whole,
    }


@dataclass(frozen=True)
class BandwidthChanges(Columns):
    """The changes of the bandwidth of each kind of copy, sorted by device, kind and time."""

    device: Ints
    kind: NDArray[np.str_]
    """The kind of copy: its direction, if its name says it, as in "Memcpy DtoH"; or "Memset"."""
    ts: Ints
    bandwidth: NDArray[np.float64]
    """The sum over all copies of the kind that run from then on, in GB/s; 0 if none does."""


def bandwidth_changes(trace: Trace) -> BandwidthChanges:
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
    found = bandwidth_changes(trace)
    rows: list[Row] = []
    for device, kind, here in groups(found.device, found.kind):
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
