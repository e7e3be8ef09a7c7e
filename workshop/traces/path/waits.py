"""Who waited for what: the CPU for a device, a stream for another one, a thread for another one.

Each function returns pairs of moments: those that waited, and those that they waited for.
"""

from typing import NamedTuple

import numpy as np

from workshop.traces.intervals import Ints, groups
from workshop.traces.path.window import DeviceEvents, HostEvents, Window, is_communication
from workshop.traces.trace import LAUNCH, SYNC, Trace

AUTOGRAD = r"autograd::engine::evaluate_function|torch::autograd::"
"""The names of the operators of a backward pass."""

BLOCKING = (
    r"(cuda|hip|musa)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize|"
    r"(cuda|hip)Memcpy(WithStream|2D|DtoH|HtoD|DtoD)?(_ptds)?(_v\d+)?$"  # nsys adds the version
)
"""The names of the calls that return only when a device has done something."""

BLOCKING_COPY = r"Memcpy (DtoH|HtoD).*Pageable"
"""The names of the copies whose call may last as long as the copy does, whatever the call is named."""


class Links(NamedTuple):
    """Pairs of moments: columns of equal length."""

    later: Ints
    earlier: Ints


FIRST_ON_HOST = 2
"""The first moments are the start and the end of the window; those on the CPU come next."""


class Moments(NamedTuple):
    """The starts and ends of the events of a window, as numbers in the order of each thread and stream."""

    host_start: Ints
    host_end: Ints
    device_start: Ints
    device_end: Ints
    end: int = 1


def moments(host: HostEvents, device: DeviceEvents) -> Moments:
    """Return the numbers of the moments of some events: the window's, those on the CPU, and those on devices."""
    place = np.empty_like(host.bounds)
    place[host.bounds] = FIRST_ON_HOST + np.arange(len(host.bounds))
    on_device = FIRST_ON_HOST + len(place) + np.arange(2 * len(device.row))
    return Moments(place[::2], place[1::2], on_device[::2], on_device[1::2])


class _Launches(NamedTuple):
    """What was launched into a stream, or by a thread, in the order of the launches: columns of equal length."""

    time: Ints
    event: Ints
    """The number in `DeviceEvents`."""

    def last_before(self, time: int) -> int:
        """Return what was launched last before a time, or -1."""
        place = int(np.searchsorted(self.time, time, side="right"))
        return int(self.event[place - 1]) if place else -1

    def first_after(self, time: int) -> int:
        """Return what was launched first from a time on, or -1."""
        place = int(np.searchsorted(self.time, time, side="left"))
        return int(self.event[place]) if place < len(self.event) else -1


NO_LAUNCHES = _Launches(np.empty(0, np.int64), np.empty(0, np.int64))


def launches(trace: Trace, host: HostEvents, device: DeviceEvents, at: Moments) -> Links:
    """Return that what runs on a device cannot start before its launching call does."""
    call = calls(trace, host, device)
    known = call >= 0
    return Links(at.device_start[known], at.host_start[call[known]])


def blocking_copies(trace: Trace, host: HostEvents, device: DeviceEvents, at: Moments) -> Links:
    """Return that the call of a blocking copy lasts until the copy is done."""
    call = calls(trace, host, device)
    blocks = trace.named(BLOCKING_COPY)[device.row] | trace.named(BLOCKING)[device.call]
    known = (call >= 0) & blocks
    return Links(at.host_end[call[known]], at.device_end[known])


def synchronisations(trace: Trace, host: HostEvents, device: DeviceEvents, at: Moments) -> Links:
    """Return that calls wait for kernels, and kernels for those of other streams.

    What a call waits for is what the profiler wrote about it, which it does if it was asked to
    (`enable_cuda_sync_events`). Otherwise `cudaDeviceSynchronize` waits for all streams, and another call for what its
    thread launched last.
    """
    if not len(device.row):
        return joined([])
    found = _Synchronisations(trace, host, device)
    pairs = [
        (at.host_end[call], at.device_end[one])
        for call in np.flatnonzero(trace.named(BLOCKING)[host.row]).tolist()
        for one in found.awaited(call)
        if one >= 0
    ]
    for note in found.stream_waits:
        waiting, source = found.waiting(note), found.recorded(note)
        if waiting >= 0 and source >= 0:
            pairs.append((at.device_start[waiting], at.device_end[source]))
    later, earlier = np.array(pairs, np.int64).reshape(-1, 2).T
    return Links(later, earlier)


def threads(trace: Trace, window: Window, host: HostEvents, at: Moments) -> Links:
    """Return which threads waited for which.

    After a pause in which the window's thread did something, another thread depends on that. While the window's thread
    runs no operator, it waits for the backward pass, or the communication, on other threads that ends meanwhile, if
    none of it still goes on as the thread resumes.
    """
    top = np.flatnonzero(host.parent < 0)
    mine = top[host.thread[top] == window.thread]
    others = [top[host.thread[top] == thread] for thread in np.unique(host.thread) if thread != window.thread]
    awaited = [rows for rows in (_awaited(trace, host, other) for other in others) if len(rows)]
    return joined([_woken(window, host, other, at) for other in others] + _resumed(window, host, mine, awaited, at))


def joined(links: list[Links]) -> Links:
    """Return all pairs of some lists."""
    none = np.empty(0, np.int64)
    return Links(*(np.concatenate([none, *columns]) for columns in (zip(*links, strict=True) if links else ((), ()))))


def calls(trace: Trace, host: HostEvents, device: DeviceEvents) -> Ints:
    """Return for each event on a device the number of its launching call in `host`, or -1."""
    number_of = np.full(len(trace.events) + 1, -1)
    number_of[host.row] = np.arange(len(host.row))
    return number_of[device.call]


def _awaited(trace: Trace, host: HostEvents, other: Ints) -> Ints:
    """Return which of the outermost events of a thread may be waited for: all, if the backward pass runs there."""
    rows = host.row[other]
    return other if trace.named(AUTOGRAD)[rows].any() else other[is_communication(trace)[rows]]


def _woken(window: Window, host: HostEvents, other: Ints, at: Moments) -> Links:
    place = np.flatnonzero(host.thread[host.bounds // 2] == window.thread)
    bound = host.bounds[place]
    times = np.where(bound % 2, host.end[bound // 2], host.start[bound // 2])
    before = np.concatenate([[window.start], host.end[other[:-1]]])
    last = np.searchsorted(times, host.start[other], side="right") - 1
    woken = (last >= 0) & (np.append(times, 0)[last] >= before)
    return Links(at.host_start[other[woken]], FIRST_ON_HOST + place[last[woken]])


def _resumed(window: Window, host: HostEvents, mine: Ints, awaited: list[Ints], at: Moments) -> list[Links]:
    if not awaited:
        return []
    pause = np.concatenate([[window.start], host.end[mine]])
    resume = np.concatenate([host.start[mine], [window.end]])
    resumed = np.concatenate([at.host_start[mine], [at.end]])
    running = np.zeros(len(resume), np.int64)
    for rows in awaited:
        running += np.searchsorted(host.start[rows], resume, side="left")
        running -= np.searchsorted(host.end[rows], resume, side="right")
    links = []
    for rows in awaited:
        last = np.searchsorted(host.end[rows], resume, side="right") - 1
        waited = (last >= 0) & (host.end[rows[last]] > pause) & (running == 0)
        links.append(Links(resumed[waited], at.host_end[rows[last[waited]]]))
    return links


class _Synchronisations:
    """What the profiler wrote about who waits for events on a device."""

    def __init__(self, trace: Trace, host: HostEvents, device: DeviceEvents) -> None:
        self.events, self.host = trace.events, host
        notes = np.flatnonzero(trace.of(*SYNC))
        self.stream_waits = notes[trace.named("Stream Wait Event")[notes]].tolist()
        self._note_of = dict(zip(self.events.correlation[notes].tolist(), notes.tolist(), strict=True))
        calls = np.flatnonzero(trace.of(*LAUNCH) & (self.events.correlation >= 0))
        self._time_of = dict(zip(self.events.correlation[calls].tolist(), self.events.ts[calls].tolist(), strict=True))
        self._waits_for_all = trace.named(r"(cuda|hip|musa)DeviceSynchronize|cuCtxSynchronize")
        self._of_stream = _launches_by(device, self.events.device[device.row], self.events.stream[device.row])
        self._of_thread = _launches_by(device, np.where(device.call >= 0, trace.thread[device.call], -1))

    def awaited(self, number: int) -> list[int]:
        """Return what may have been waited for by a call, which is named by its number in `host`."""
        row, start = int(self.host.row[number]), int(self.host.start[number])
        correlation = int(self.events.correlation[row])
        note = self._note_of.get(correlation) if correlation >= 0 else None
        if note is not None and self.events.waits_on_stream[note] >= 0:
            return [self.recorded(note)]
        if self._waits_for_all[row]:
            device = None if note is None else int(self.events.device[note])
            chosen = [each for (of, _), each in self._of_stream.items() if device in (None, -1, of)]
        elif note is not None:
            chosen = [self._into(note, int(self.events.stream[note]))]
        else:
            chosen = [self._of_thread.get((int(self.host.thread[number]),), NO_LAUNCHES)]
        return [each.last_before(start) for each in chosen]

    def recorded(self, note: int) -> int:
        """Return what was launched last into a stream before the CUDA event that is waited for was recorded, or -1."""
        time = self._time_of.get(int(self.events.waits_on[note]), self._begin(note))
        return self._into(note, int(self.events.waits_on_stream[note])).last_before(time)

    def waiting(self, note: int) -> int:
        """Return what was launched first into a stream after the stream was told to wait, or -1."""
        return self._into(note, int(self.events.stream[note])).first_after(self._begin(note))

    def _begin(self, note: int) -> int:
        """Return when the call began that a note is about."""
        return self._time_of.get(int(self.events.correlation[note]), int(self.events.ts[note]))

    def _into(self, note: int, stream: int) -> _Launches:
        return self._of_stream.get((int(self.events.device[note]), stream), NO_LAUNCHES)


def _launches_by(device: DeviceEvents, *keys: Ints) -> dict[tuple[int, ...], _Launches]:
    """Return what was launched by some keys of each event."""
    order = np.argsort(device.launched, kind="stable")
    found = ((key, order[rows]) for *key, rows in groups(*(key[order] for key in keys)))
    return {tuple(key): _Launches(device.launched[rows], rows) for key, rows in found}
