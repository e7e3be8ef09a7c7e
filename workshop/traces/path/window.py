"""The events of a part of a trace: on the CPU nested as they called each other, on devices in the order of a stream."""

from typing import Literal, NamedTuple

import numpy as np

from workshop.traces import breakdown
from workshop.traces.intervals import Ints
from workshop.traces.trace import DATA_WAIT, LAUNCH, Mask, Trace


class Window(NamedTuple):
    """A part of a trace."""

    name: str
    start: int
    end: int
    thread: int
    """The number in `Trace.thread` of the thread that the window belongs to."""
    ends_with: Literal["thread", "device", "anything"] = "thread"
    """What does the last thing in it: this thread, a device, or any thread or device."""


class HostEvents(NamedTuple):
    """Operators, calls and waits on the CPU, sorted by thread and start: columns of equal length but for `bounds`."""

    row: Ints
    thread: Ints
    start: Ints
    """The start in ns, cut off at the window."""
    end: Ints
    """The end in ns, cut off at the window, and at the end of the event around it."""
    parent: Ints
    bounds: Ints
    """All starts and ends in the order in which each thread passed them: twice the event's number, +1 for an end."""


class DeviceEvents(NamedTuple):
    """Kernels, copies and sets, sorted by stream and start: columns of equal length."""

    row: Ints
    queue: Ints
    """A number for each stream of each device, from 0."""
    start: Ints
    """The start in ns, cut off at the window."""
    end: Ints
    kind: Ints
    call: Ints
    """The row in `Trace.events` of the launching call, or -1."""
    launched: Ints
    """The begin of the launching call in ns; without one, the own start."""


def host_events(trace: Trace, window: Window) -> HostEvents:
    """Return the operators and calls of a window, the waits for data on its thread, and the communication of a CPU."""
    events = trace.events
    start, end = np.maximum(events.ts, window.start), np.minimum(events.end, window.end)
    zero = trace.of(*LAUNCH) & (events.dur == 0)  # by a clock of whole µs
    inside = (start < end) | (zero & (start <= end) & (start == events.ts))
    row = np.flatnonzero(
        inside & (trace.of("cpu_op", *LAUNCH) | waits_for_data(trace, window) | is_communication(trace))
    )
    row = row[np.lexsort((-events.dur[row], events.ts[row], trace.thread[row]))]
    thread, start, end = trace.thread[row], start[row], end[row]
    end, parent, bounds = (np.array(each, np.int64) for each in _nested(thread, start, end))
    return HostEvents(row, thread, start, end, parent, bounds)


def waits_for_data(trace: Trace, window: Window) -> Mask:
    """Return which events are waits of the window's thread for its DataLoader."""
    return (trace.thread == window.thread) & trace.of("user_annotation") & trace.named(DATA_WAIT)


def is_communication(trace: Trace) -> Mask:
    """Return which events are communication that a CPU does itself."""
    if len(trace.gpu):
        return np.zeros(len(trace.events), bool)
    return trace.named(breakdown.CPU_COMMUNICATION)


def _nested(thread: Ints, start: Ints, end: Ints) -> tuple[list[int], list[int], list[int]]:
    """Return the ends, each at the latest at that of the event around it, the events around, and the bounds."""
    ends = end.tolist()
    parents: list[int] = []
    bounds: list[int] = []
    stack: list[int] = []
    last = -1
    for number, (here, begin) in enumerate(zip(thread.tolist(), start.tolist(), strict=True)):
        while stack and (here != last or ends[stack[-1]] <= begin):
            bounds.append(2 * stack.pop() + 1)
        last = here
        parent = stack[-1] if stack else -1
        if stack and ends[number] > ends[parent]:
            ends[number] = ends[parent]
        parents.append(parent)
        bounds.append(2 * number)
        stack.append(number)
    bounds += [2 * number + 1 for number in reversed(stack)]
    return ends, parents, bounds


def device_events(trace: Trace, window: Window) -> DeviceEvents:
    """Return what devices did in a window; what ends after it is nothing that the window waited for."""
    calls, found = trace.launches
    events = trace.gpu
    here = (events.end > window.start) & (events.end <= window.end)
    here |= (events.dur == 0) & (events.ts == window.start)
    queue = np.unique(np.stack([events.device, events.stream]), axis=1, return_inverse=True)[1].reshape(-1)
    order = np.flatnonzero(here)
    order = order[np.lexsort((events.end[order], events.ts[order], queue[order]))]
    gpu_row = np.flatnonzero(trace.on_gpu)
    call_row = np.append(np.searchsorted(trace.events.index, calls.index), -1)[found]
    return DeviceEvents(
        gpu_row[order],
        queue[order],
        np.maximum(events.ts[order], window.start),
        events.end[order],
        breakdown.kinds(trace)[order],
        call_row[order],
        trace.launched_at[order],
    )
