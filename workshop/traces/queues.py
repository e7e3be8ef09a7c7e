"""The queue of each stream: what was launched and has not begun. Is the device ever waiting for launches?"""

from typing import Any, NamedTuple

import numpy as np

from workshop.traces.breakdown import Row
from workshop.traces.intervals import Ints, Spans, overlap, union, without
from workshop.traces.trace import Trace

FULL = 1024
"""Launches that have not begun, which a stream of CUDA takes at most: from then on, the launching calls wait."""

ALL_STREAMS = "all"


class QueueChanges(NamedTuple):
    """The changes of all queues: columns of equal length, sorted by device, stream and time."""

    device: Ints
    stream: Ints
    ts: Ints
    length: Ints
    """The number of launches that have not begun on the device."""
    event: Ints
    """The `EventColumns.index` of the launching call, or of the event that began."""

    def rows(self, which: Any) -> "QueueChanges":
        """Return some of the changes."""
        return QueueChanges(*(column[which] for column in self))


def changes(trace: Trace) -> QueueChanges:
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
    found = changes(trace)
    rows = []
    for device in np.unique(found.device):
        of_device = found.rows(found.device == device)
        streams = np.unique(of_device.stream).tolist()
        busy = trace.gpu.spans(trace.gpu.device == device)
        window = Spans(of_device.ts.min(keepdims=True), busy.end[-1:])
        for stream in [ALL_STREAMS] * (len(streams) > 1) + streams:
            here = _together(of_device) if stream == ALL_STREAMS else of_device.rows(of_device.stream == stream)
            rows.append({"device": int(device), "stream": stream} | _filled(here, window, without(window, busy), full))
    return rows


def _together(queues: QueueChanges) -> QueueChanges:
    """Return the changes of several queues as those of one."""
    step = np.diff(queues.length, prepend=0)
    order = np.lexsort((-step, queues.ts))
    return queues.rows(order)._replace(length=np.cumsum(step[order]))


def _filled(queue: QueueChanges, window: Spans, idle: Spans, full: int) -> Row:
    whole = max(window.length, 1)
    lasting = np.diff(queue.ts, append=window.end[-1:])
    empty = without(window, time_at_least(queue.ts, queue.length, 1))
    starved = overlap(empty, idle)
    return {
        "launches": len(queue.ts) // 2,
        "mean_length": float((queue.length * lasting).sum() / whole),
        "max_length": int(queue.length.max()),
        "empty_time_pctg": 100 * empty.length / whole,
        "starved_time_pctg": 100 * starved.length / whole,
        "longest_starved(us)": int((starved.end - starved.start).max(initial=0)) / 1000,
        "full_time_pctg": 100 * time_at_least(queue.ts, queue.length, full).length / whole,
    }
