"""What waited for what in a part of a trace: a graph of the starts and ends of its events.

Each of these moments comes a certain time after the last of those that it depends on. This is its self time: that of an
operator, of a kernel, or a delay. So every moment follows from the others, and where a self time is set to zero, the
moments behind it come earlier.

- On a thread, a moment depends on the one before it. The time between belongs to the innermost operator, or to Python.
- A kernel depends on the begin of its launching call, on the kernel before it on its stream, and on the kernels of
  other streams that its stream was told to wait for.
- The end of a call that synchronises depends on the kernels that it waits for.
- Threads wait for each other as `waits.threads` says.

A dependency that the times contradict is left out.
"""

from typing import NamedTuple

import numpy as np

from workshop.traces.breakdown import KERNEL_WAIT_NS
from workshop.traces.intervals import Ints
from workshop.traces.path import waits
from workshop.traces.path.waits import Links, Moments
from workshop.traces.path.window import (
    DeviceEvents,
    HostEvents,
    Window,
    device_events,
    host_events,
    is_communication,
    waits_for_data,
)
from workshop.traces.trace import LAUNCH, Mask, Trace

KINDS = (
    "CPU operators",
    "Python",
    "kernels",
    "communication",
    "copies",
    "launch delay",
    "gaps between kernels",
    "synchronisation",
    "unknown waits of streams",
    "data wait",
)
OPERATOR, PYTHON, KERNEL, COMMUNICATION, COPY, LAUNCH_DELAY, GAP, SYNCHRONISATION, UNKNOWN, DATA = range(len(KINDS))


class Graph(NamedTuple):
    """Moments in such an order that each comes after all that it depends on: columns of equal length.

    The first is the start of the window and the last its end.
    """

    time: Ints
    self_time: Ints
    """The time in ns since `last`."""
    last: Ints
    """The last of the moments that this one depends on; -1 for the first moment."""
    kind: Ints
    """What the self time was spent on, as an index in `KINDS`."""
    event: Ints
    """The row in `Trace.events` of the event that took the self time, or -1."""
    operator: Ints
    """The operator or kernel that took the self time, as `operator_names` numbers them, or -1."""
    run: Ints
    """The row in `Trace.events` of this run of the operator or kernel, or -1."""
    chain: Ints
    before: Ints
    """The moment before it on the same thread or stream, if it depends on that, or -1."""
    links: Links
    """Further dependencies, sorted by the later moment."""


def graph_of(trace: Trace, window: Window) -> Graph:
    """Return what waited for what in a window."""
    host, device = host_events(trace, window), device_events(trace, window)
    at = waits.moments(host, device)
    links = [
        waits.launches(trace, host, device, at),
        waits.blocking_copies(trace, host, device, at),
        waits.synchronisations(trace, host, device, at),
        waits.threads(trace, window, host, at),
        _ends(window, host, device, at),
    ]
    return _in_order(_columns(trace, window, host, device), waits.joined(links), at)


def _ends(window: Window, host: HostEvents, device: DeviceEvents, at: Moments) -> Links:
    """Return that the window ends with what its thread, a device, or any of them does last."""
    last = np.flatnonzero(host.parent < 0)
    if window.ends_with == "thread":
        last = last[host.thread[last] == window.thread][-1:]
    on_host = at.host_end[last] if window.ends_with != "device" else at.host_end[:0]
    on_device = at.device_end if window.ends_with != "thread" else at.device_end[:0]
    earlier = np.concatenate([on_host, on_device])
    return Links(np.full_like(earlier, at.end), earlier)


def _columns(trace: Trace, window: Window, host: HostEvents, device: DeviceEvents) -> Ints:
    """Return what is known of all moments before it is known what they depend on, in the order of their numbers.

    The rows are the time; the order of moments at the same time, which is ends on a device, ends on a CPU, starts
    there, and starts on a device; and the kind, event, operator, run and chain of `Graph`.
    """
    start, end = ([*each, PYTHON, -1, -1, -1] for each in ((window.start, -1), (window.end, 9)))
    of_window = np.array([[*start, -1], [*end, -2]]).T
    return np.concatenate([of_window, _host_columns(trace, window, host), _device_columns(trace, host, device)], axis=1)


def _host_columns(trace: Trace, window: Window, host: HostEvents) -> Ints:
    number, is_end = host.bounds // 2, host.bounds % 2 == 1
    owner = np.where(is_end, number, host.parent[number])
    lasting = host.end > host.start
    kinds = np.full(len(host.row) + 1, OPERATOR)
    kinds[:-1][is_communication(trace)[host.row]] = COMMUNICATION
    kinds[:-1][trace.named(waits.BLOCKING)[host.row]] = SYNCHRONISATION
    data_waits = waits_for_data(trace, window)[host.row]
    waiting = _under(host, data_waits)
    kinds[:-1][waiting] = DATA
    kinds[-1] = PYTHON
    runs = _runs(trace, host, waiting & ~data_waits)
    time = np.where(is_end, host.end[number], host.start[number])
    order = np.where(is_end & lasting[number], 1, 2)
    of_owner = (np.append(each, -1)[owner] for each in (host.row, _operators(trace, runs), runs))
    return np.stack([time, order, kinds[owner], *of_owner, host.thread[number]])


def _device_columns(trace: Trace, host: HostEvents, device: DeviceEvents) -> Ints:
    launcher = np.append(_operators(trace, _runs(trace, host)), 0)[waits.calls(trace, host, device)]
    operator = (trace.events.name[device.row] + 1) * _base(trace.names) + launcher // _base(trace.names)
    chain = device.queue + int(trace.thread.max(initial=0)) + 1
    none = np.full(len(device.row), -1)
    starts = [device.start, np.full_like(none, 3), np.full_like(none, GAP), none, none, none, chain]
    order = np.where(device.end > device.start, 0, 3)
    kind = np.array([KERNEL, COMMUNICATION, COPY])[device.kind]
    ends = [device.end, order, kind, device.row, operator, device.row, chain]
    return np.stack([starts, ends], axis=2).reshape(len(ends), -1)


def _under(host: HostEvents, chosen: Mask) -> Mask:
    """Return which events are among the chosen ones, or inside one of them."""
    found = np.append(chosen, False)
    while (more := found[:-1] | found[host.parent]).sum() > found.sum():
        found[:-1] = more
    return found[:-1]


def _runs(trace: Trace, host: HostEvents, in_data_wait: Mask | bool = False) -> Ints:
    """Return the row in `Trace.events` of each event on the CPU; of a call, that of the operator around it.

    What runs `in_data_wait`, such as the operators of a transform, counts as a part of that wait.
    """
    is_part = trace.of(*LAUNCH)[host.row] | in_data_wait
    owner = np.arange(len(host.row))
    while len(inner := np.flatnonzero(is_part[owner] & (host.parent[owner] >= 0))):
        owner[inner] = host.parent[owner[inner]]
    return host.row[owner]


def _operators(trace: Trace, rows: Ints) -> Ints:
    """Return the operators in some rows, as `operator_names` numbers them."""
    return (trace.events.name[rows] + 1) * _base(trace.names)


def operator_names(names: list[str], operator: int) -> tuple[str, str | None]:
    """Return the name of an operator, or those of a kernel and of the operator that launched it."""
    name, launcher = divmod(operator, _base(names))
    return names[name - 1], names[launcher - 1] if launcher else None


def _base(names: list[str]) -> int:
    return len(names) + 1


def _in_order(columns: Ints, links: Links, at: Moments) -> Graph:
    """Return the graph: the moments by time, with every dependency that the times do not contradict."""
    order = np.lexsort((columns[1], columns[0]))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    time, rank, kind, event, operator, run, chain = columns[:, order]
    before = np.where(np.diff(columns[-1], prepend=-3) == 0, place[np.arange(len(place)) - 1], -1)[order]
    before[before >= np.arange(len(before))] = -1
    later, earlier = place[links.later], place[links.earlier]
    valid = earlier < later
    later, earlier = later[valid], earlier[valid]
    alone = before < 0
    alone[later] = False
    alone[0] = False  # the first moment depends on nothing, and what depends on nothing else depends on it
    later = np.concatenate([later, np.flatnonzero(alone)])
    earlier = np.concatenate([earlier, np.zeros(alone.sum(), np.int64)])
    by_later = np.lexsort((earlier, later))
    links = Links(later[by_later], earlier[by_later])
    last = before.copy()
    np.maximum.at(last, links.later, links.earlier)
    self_time = time - np.where(last >= 0, time[last], time)
    on_device = np.isin(rank, (0, 3))
    kind[(kind == GAP) & (last != before)] = LAUNCH_DELAY
    kind[(kind == LAUNCH_DELAY) & on_device[last]] = SYNCHRONISATION
    # No launch takes that long: the stream waited for something, and the trace does not say for what.
    kind[np.isin(kind, (GAP, LAUNCH_DELAY)) & (self_time >= KERNEL_WAIT_NS)] = UNKNOWN
    return Graph(time, self_time, last, kind, event, operator, run, chain, before, links)
