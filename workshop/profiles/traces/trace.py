"""A torch.profiler trace as columns: one row for each event that lasts."""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.profiles.traces.decoding import Decoder, Event, TraceError

COARSE_US = 2.0**43
"""From here on a float holds no whole number of ns any more."""

BEYOND_US = 2.0**53
"""No time is that late: nearly 300 years."""

KERNEL = ("kernel", "Kernel")
COPY = ("gpu_memcpy", "Memcpy")
SET = ("gpu_memset", "Memset")
LAUNCH = ("cuda_runtime", "cuda_driver", "Runtime", "Driver", "hip_runtime", "privateuse1_runtime", "xpu_runtime")

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Events:
    """Columns of equal length."""

    index: Ints
    """Its place among all events of the file, from 0."""
    name: Ints
    """Number of the name in `Trace.names`."""
    cat: Ints
    """Number of the category in `Trace.cats`."""
    pid: Ints
    """Number of the process; not as the system has it."""
    tid: Ints
    """Number of the thread; likewise."""
    stream: Ints
    """-1: none."""
    correlation: Ints
    """The same for a launch and what it launched; -1: none."""
    device: Ints
    """-1: none."""
    bytes: Ints
    """Copied or set."""
    ts: Ints
    """When it began, in ns, from where the file begins to count."""
    dur: Ints
    """How long it took, in ns."""

    @property
    def end(self) -> Ints:
        """When it ended, in ns."""
        return self.ts + self.dur

    def __len__(self) -> int:
        return len(self.ts)

    def __getitem__(self, rows: Any) -> "Events":
        return Events(*(getattr(self, name)[rows] for name in _COLUMNS))


_COLUMNS = tuple(Events.__dataclass_fields__)


@dataclass(frozen=True)
class Trace:
    """What one process recorded."""

    path: Path
    events: Events
    names: list[str]
    cats: list[str]
    rank: int | None = None
    """As the file says."""
    script: str | None = None
    """Of which it is, if `workshop record torch` made it."""
    whole_us: bool = False
    """Whether all times were written as whole µs, as older versions of torch do."""
    untimed: bool = False
    """Whether there are events without a time, as names of processes in older versions."""
    damage: tuple[str, ...] = ()
    """What could not be read, for a person."""

    def of(self, *cats: str) -> Mask:
        """Which events are of one of some categories."""
        return np.isin(self.events.cat, [number for number, cat in enumerate(self.cats) if cat in cats])

    def named(self, pattern: str) -> Mask:
        """Which events have a name that begins with what a regular expression says."""
        matches = re.compile(pattern).match
        return np.array([matches(name) is not None for name in self.names] or [False])[self.events.name]

    @cached_property
    def thread(self) -> Ints:
        """One number for each process and thread."""
        return self.events.pid * (int(self.events.tid.max(initial=0)) + 1) + self.events.tid

    @cached_property
    def on_gpu(self) -> Mask:
        """Which events ran on a device: kernels, copies and sets."""
        return self.of(*KERNEL, *COPY, *SET)

    @cached_property
    def gpu(self) -> Events:
        """The events that ran on a device."""
        return self.events[self.on_gpu]

    @cached_property
    def main_thread(self) -> int | None:
        """The number of the thread that trains: that of the steps, or the one with the most operators."""
        steps = self.thread[self.of("user_annotation") & self.named(r"ProfilerStep")]
        ops = self.thread[self.of("cpu_op")]
        found = steps if len(steps) else ops if len(ops) else self.thread
        return int(np.bincount(found).argmax()) if len(found) else None

    @cached_property
    def launches(self) -> Events:
        """The calls by which the CPU gave the device its work."""
        return self.events[self.of(*LAUNCH) & (self.events.correlation >= 0)]


def read(path: Path) -> Trace:
    """Read a trace.

    Args:
        path: JSON as torch.profiler exports it, also compressed with gzip.

    Raises:
        TraceError: it is none, or nothing of it can be read.
        OSError: it cannot be opened.
    """
    try:
        return _read(path, exact=False)
    except _CoarseError:
        return _read(path, exact=True)


class _CoarseError(Exception):
    """Times are so large, and not whole, that floats have lost digits."""


def _read(path: Path, exact: bool) -> Trace:
    decoder = Decoder(path, exact)
    table = _Table(exact)
    for events in decoder:
        table.add(events)
    about = decoder.about
    distributed = about.distributedInfo if isinstance(about.distributedInfo, dict) else {}
    damage = []
    if decoder.cut:
        damage.append(f"{path} ends too early; the first {table.count} events are there")
    if lost := decoder.lost + table.lost:
        damage.append(f"{lost} event{'s' * (lost != 1)} of {path} could not be read")
    if damage and not table.count:
        raise TraceError(f"{path} is damaged: no event of it can be read")
    return Trace(
        path,
        table.events(),
        list(table.names),
        [str(cat) for cat in table.cats],
        _int_or_none(distributed.get("rank")),
        about.script if isinstance(about.script, str) else None,
        table.types <= {int},
        type(None) in table.types,
        tuple(damage),
    )


class _Numbers(dict[Any, int]):
    """Numbers things in the order in which they come."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class _Table:
    """Events become columns, some at a time: the objects are large."""

    def __init__(self, exact: bool) -> None:
        self.names, self.cats = _Numbers(), _Numbers()
        self.count = 0
        self.lost = 0
        self.types: set[type] = set()
        """Of the times, as they are written."""
        self._exact = exact
        self._pids, self._tids = _Numbers(), _Numbers()
        self._parts: list[list[Ints]] = []

    def add(self, events: list[Event]) -> None:
        """Keep those that last; the others are instants, flows, and names of processes."""
        self.types |= {type(event.ts) for event in events}
        lasts = [event.dur is not None for event in events]
        index = np.flatnonzero(lasts) + self.count
        self.count += len(events)
        events = list(compress(events, lasts))
        if not events:
            return
        ts, dur = (np.array([*map(attrgetter(name), events)], np.float64) for name in ("ts", "dur"))
        sound = (np.abs(ts) < BEYOND_US) & (dur >= 0) & (dur < BEYOND_US)
        self.lost += int(np.count_nonzero(~sound))
        columns = self._columns(events)
        kept = sound & ~np.isin(columns[1], [self.cats[cat] for cat in (None, "Trace") if cat in self.cats])
        if not kept.all():
            events = list(compress(events, kept.tolist()))
            index, ts, dur = index[kept], ts[kept], dur[kept]
            columns = [column[kept] for column in columns]
        self._parts.append([index, *columns, self._ns(ts, events, "ts"), self._ns(dur, events, "dur")])

    def _columns(self, events: list[Event]) -> list[Ints]:
        numbers = {"name": self.names, "cat": self.cats, "pid": self._pids, "tid": self._tids}
        columns = [
            np.fromiter(map(known.__getitem__, map(attrgetter(name), events)), np.int64, len(events))
            for name, known in numbers.items()
        ]
        args = [event.args for event in events]
        streams, correlations = (_whole([*map(attrgetter(name), args)], -1) for name in ("stream", "correlation"))
        # Few events have a device, or bytes.
        on_gpu = np.isin(columns[1], [number for cat, number in self.cats.items() if cat in (*KERNEL, *COPY, *SET)])
        args = list(compress(args, on_gpu.tolist()))
        devices, sizes = np.full(len(events), -1), np.zeros(len(events), np.int64)
        devices[on_gpu] = _whole([each.device for each in args], -1)
        sizes[on_gpu] = _whole([each.bytes for each in args], 0)
        return [*columns, streams, correlations, devices, sizes]

    def _ns(self, microseconds: Any, events: list[Event], name: str) -> Ints:
        if self._exact:
            return np.array([round(getattr(event, name) * 1000) for event in events], np.int64)
        if float in self.types and np.abs(microseconds).max(initial=0) >= COARSE_US:
            raise _CoarseError
        whole = np.floor(microseconds)
        return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)

    def events(self) -> Events:
        """All that were added."""
        parts = self._parts or [[np.empty(0, np.int64)] * len(_COLUMNS)]
        return Events(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _whole(values: list[Any], missing: int) -> Ints:
    """Numbers, and texts that are some; everything else is missing, as a stream "0x0" is."""
    if set(map(type, values)) <= {int}:
        with suppress(OverflowError):
            return np.array(values, np.int64)
    return np.array([_int_or(value, missing) for value in values], np.int64)


def _int_or(value: Any, missing: int) -> int:
    try:
        number = int(float(value)) if not isinstance(value, int) else value
    except (TypeError, ValueError, OverflowError):
        return missing
    return number if -(2**63) <= number < 2**63 else missing


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
