"""A torch.profiler trace as columns, with one row for each event that has a duration."""

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import compress, count
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from workshop.file_kind import TIMELINE, kind_of, wrong_kind
from workshop.traces.decoding import (
    NO_TRACE,
    WRITES_ONE,
    Args,
    Decoder,
    TraceError,
    TraceEvent,
    decode_events,
    decode_exact_events,
)
from workshop.traces.event_columns import Allocations, EventColumns
from workshop.traces.intervals import Ints

MAX_US = 2.0**53
"""Microseconds, nearly 300 years: no valid time is as late."""

ALLOCATION = "[memory]"
"""The name of the events that tell of an allocation, or of a release of memory."""

KERNEL = ("kernel", "Kernel", "mtia_ccp_events")
COPY = ("gpu_memcpy", "Memcpy")
SET = ("gpu_memset", "Memset")
SYNC = ("cuda_sync",)
LAUNCH = (
    *("cuda_runtime", "cuda_driver", "Runtime", "Driver"),
    *("hip_runtime", "privateuse1_runtime", "privateuse1_driver", "xpu_runtime", "xpu_driver", "mtia_runtime"),
)

RECORDED = (*KERNEL, *COPY, *SET, *SYNC, *LAUNCH, "cpu_op", "user_annotation", "gpu_user_annotation", "python_function")
"""The categories of what torch.profiler records: without any, a trace is that of another program, or of nothing."""

DATA_WAIT = r"enumerate\(DataLoader\)"
"""The names of the annotations under which a training gets a batch from its DataLoader."""

NO_ARGS = Args()

Mask = NDArray[np.bool_]
T = TypeVar("T")


_COLUMNS = tuple(EventColumns.__dataclass_fields__)
_NARROW = (
    *("index", "cat", "stream", "correlation", "device", "waits_on", "waits_on_stream"),
    *("external", "sequence", "forward_thread", "stack"),
)
"""The columns that are only compared, and never computed with: they take 32 bits if that is enough."""


_HAVE = {
    "device": (*KERNEL, *COPY, *SET, *SYNC),
    "operator": ("cpu_op",),
    "linked": (*KERNEL, *COPY, *SET, "cpu_op"),
    "function": ("python_function",),
}
"""The categories of events that have some arguments."""

_ARGS_OF_FEW = {
    **dict.fromkeys(("device", "bytes", "waits_on", "waits_on_stream"), "device"),
    "external": "linked",
    **dict.fromkeys(("sequence", "forward_thread"), "operator"),
}
"""The events that have each of the further columns."""

_ALLOCATED = tuple(Allocations.__dataclass_fields__)
NO_ALLOCATIONS = Allocations(*[np.empty(0, np.int64)] * len(_ALLOCATED))


@dataclass(frozen=True, eq=False)
class Trace:
    """The events that one process recorded."""

    path: Path
    events: EventColumns
    names: list[str]
    cats: list[str]
    rank: int | None = None
    script: str | None = None
    whole_us: bool = False
    """Whether all times were written as whole µs, as older versions of torch do."""
    untimed: bool = False
    """Whether the file has events without a time, such as the names of processes in older versions of torch."""
    damage: tuple[str, ...] = ()
    allocations: Allocations = NO_ALLOCATIONS
    stacks: tuple[str, ...] = ()
    """Where operators and functions were called, as the profiler writes it: a line, or a stack, innermost first."""

    def of(self, *cats: str) -> Mask:
        """Return which events belong to one of some categories."""
        return np.isin(self.events.cat, [number for number, cat in enumerate(self.cats) if cat in cats])

    def named(self, pattern: str) -> Mask:
        """Return which events have a name that begins with a match of a regular expression."""
        return matching(self.names, pattern)[self.events.name]

    @property
    def is_of_torch(self) -> bool:
        """Whether there is anything in it that torch.profiler records."""
        return bool(self.of(*RECORDED).any() or len(self.allocations))

    @cached_property
    def thread(self) -> Ints:
        """A number for each pair of process and thread, by event."""
        return self.threads_of(self.events)

    def threads_of(self, events: EventColumns) -> Ints:
        """Return this number for some of the events."""
        return events.pid.astype(np.int64) * (int(self.events.tid.max(initial=0)) + 1) + events.tid

    @cached_property
    def on_gpu(self) -> Mask:
        """Which events ran on a device: kernels, copies and sets."""
        return self.of(*KERNEL, *COPY, *SET)

    @cached_property
    def gpu(self) -> EventColumns:
        """The events that ran on a device."""
        return self.events[self.on_gpu]

    @cached_property
    def on_main_thread(self) -> Mask:
        """Which events ran on the thread that trains: the profiler's steps did, or else most operators."""
        steps = self.thread[self.of("user_annotation") & self.named(r"ProfilerStep")]
        ops = self.thread[self.of("cpu_op")]
        found = steps if len(steps) else ops if len(ops) else self.thread
        return self.thread == (np.bincount(found).argmax() if len(found) else -1)

    @cached_property
    def launches(self) -> tuple[EventColumns, Ints]:
        """The calls that launched work on a device, and for each row of `gpu` the index of its call, or -1."""
        calls = self.events[self.of(*LAUNCH) & (self.events.correlation >= 0)]
        calls = calls[np.lexsort((calls.ts, calls.correlation))]
        first = np.searchsorted(calls.correlation, self.gpu.correlation)  # the runtime's, if it called the driver
        there = np.append(calls.correlation, -2)[first] == self.gpu.correlation
        return calls, np.where(there, first, -1)

    @property
    def launched(self) -> tuple[EventColumns, EventColumns]:
        """The calls whose launched event is in the trace, and what each launched: rows of the same number."""
        calls, found = self.launches
        return calls[found[found >= 0]], self.gpu[found >= 0]

    @cached_property
    def launched_at(self) -> Ints:
        """When each row of `gpu` was launched; when it began, if its call is not in the trace."""
        calls, found = self.launches
        return np.where(found >= 0, np.append(calls.ts, 0)[found], self.gpu.ts)


def once(compute: Callable[[Trace], T]) -> Callable[[Trace], T]:
    """Return a function that computes something once for each trace."""
    known: WeakKeyDictionary[Trace, T] = WeakKeyDictionary()

    @wraps(compute)
    def found(trace: Trace) -> T:
        if trace not in known:
            known[trace] = compute(trace)
        return known[trace]

    return found


def matching(names: list[str], pattern: str) -> Mask:
    """Return which names begin with a match of a regular expression; never an empty array."""
    match = re.compile(pattern).match
    return np.array([match(name) is not None for name in names] or [False])


def read(path: Path) -> Trace:
    """Read a trace: JSON as torch.profiler exports it, which may be gzipped.

    Raises:
        TraceError: the file is not a trace, or no event of it can be read.
        OSError: the file cannot be opened.
    """
    try:
        return _read(path, exact=False)
    except _CoarseError:
        return _read(path, exact=True)


class _CoarseError(Exception):
    """Times are fractional and so large that floats have lost digits."""


def _read(path: Path, exact: bool) -> Trace:
    decoder = Decoder(path, decode_exact_events if exact else decode_events)
    builder = _ColumnBuilder(exact)
    for events in decoder:
        builder.add(events)
    info, script = decoder.field("distributedInfo"), decoder.field("script")
    rank = info.get("rank") if isinstance(info, dict) else None
    damage = []
    if decoder.truncated:
        damage.append(f"{path} ends too early; the first {builder.count} events are there")
    if lost := decoder.lost + builder.lost:
        damage.append(f"{lost} event{'s' * (lost != 1)} of {path} could not be read")
    if decoder.is_list and kind_of(path) is TIMELINE:
        raise TraceError(wrong_kind(path, NO_TRACE, WRITES_ONE))
    if damage and not builder.count:
        raise TraceError(f"{path} is damaged: no event of it can be read")
    if decoder.is_list and builder.types <= {type(None)}:
        raise TraceError(f"{path} is no trace: it is a list, and nothing in it has a time")
    return Trace(
        path,
        builder.columns(),
        list(builder.names),
        [str(cat) for cat in builder.cats],
        rank if type(rank) is int else None,
        script if isinstance(script, str) else None,
        whole_us=builder.types <= {int},
        untimed=type(None) in builder.types,
        damage=tuple(damage),
        allocations=builder.allocations(),
        stacks=tuple(map(str, builder.stacks)),
    )


class _ColumnBuilder:
    """Turns events into columns block by block, because the objects take much memory."""

    def __init__(self, exact: bool) -> None:
        self.count = 0
        self.lost = 0
        self.types: set[type] = set()
        """The types of the times, as they are written."""
        # Each name, category, process and thread gets the next number when it is first looked up.
        self._numbers = {each: defaultdict[Any, int](count().__next__) for each in ("name", "cat", "pid", "tid")}
        self.names, self.cats = self._numbers["name"], self._numbers["cat"]
        self.stacks = defaultdict[Any, int](count().__next__)
        self._exact = exact
        self._parts: list[list[Ints]] = []
        self._allocations: list[list[Ints]] = []

    def add(self, events: list[TraceEvent]) -> None:
        """Keep the events with a duration, and allocations; the others are flows, and names of processes."""
        self.types |= {type(event.ts) for event in events}
        lasting = [event.dur is not None for event in events]
        index = np.flatnonzero(lasting) + self.count
        self.count += len(events)
        if len(index) < len(events):
            self._add_allocations([event for event in events if event.dur is None and event.name == ALLOCATION])
        events = list(compress(events, lasting))
        if not events:
            return
        ts, dur = (np.array([getattr(event, time) for event in events], np.float64) for time in ("ts", "dur"))
        valid = (np.abs(ts) < MAX_US) & (dur >= 0) & (dur < MAX_US)
        self.lost += int(np.count_nonzero(~valid))
        columns: list[Any] = self._columns(events)
        kept = valid & ~np.isin(columns[1], [self.cats[cat] for cat in (None, "Trace") if cat in self.cats])
        if not kept.all():
            events = list(compress(events, kept.tolist()))
            index, ts, dur, *columns = (column[kept] for column in [index, ts, dur, *columns])
        self._parts.append([index, *columns, self._ns(ts, events, "ts"), self._ns(dur, events, "dur")])

    def _add_allocations(self, events: list[TraceEvent]) -> None:
        ts = np.array([event.ts for event in events], np.float64)
        valid = np.abs(ts) < MAX_US
        self.lost += int(np.count_nonzero(~valid))
        events = list(compress(events, valid.tolist()))
        if events:
            args = [event.args for event in events]
            of_args = (_integers(args, name) for name in _ALLOCATED[2:-1])
            columns = [self._numbered(events, "pid"), self._numbered(events, "tid"), *of_args]
            self._allocations.append([*columns, self._ns(ts[valid], events, "ts")])

    def allocations(self) -> Allocations:
        """Return the columns of all allocations and releases that were added."""
        none = vars(NO_ALLOCATIONS).values()
        found = Allocations(*map(np.concatenate, zip(none, *self._allocations, strict=True)))
        return found[np.argsort(found.ts, kind="stable")]

    def _numbered(self, events: list[TraceEvent], name: str) -> Ints:
        return np.fromiter(map(self._numbers[name].__getitem__, map(attrgetter(name), events)), np.int64, len(events))

    def _columns(self, events: list[TraceEvent]) -> list[Any]:
        columns: list[Any] = [self._numbered(events, name) for name in self._numbers]
        args = [event.args for event in events]
        columns += [_integers(args, name) for name in ("stream", "correlation")]
        of = {cat: np.isin(columns[1], [self.cats[each] for each in _HAVE[cat] if each in self.cats]) for cat in _HAVE}
        having = {cat: list(compress(args, rows.tolist())) for cat, rows in of.items()}
        for name, cat in _ARGS_OF_FEW.items():
            column = np.full(len(events), getattr(NO_ARGS, name))
            column[of[cat]] = _integers(having[cat], name)
            columns.append(column)
        stack, bandwidth = np.full(len(events), -1), np.full(len(events), -1.0)
        for cat, name in (("operator", "call_stack"), ("function", "called_from")):
            stack[of[cat]] = [self.stacks[where] if (where := getattr(arg, name)) else -1 for arg in having[cat]]
        bandwidth[of["device"]] = [_float(arg.bandwidth) for arg in having["device"]]
        return [*columns, stack, bandwidth]

    def _ns(self, microseconds: Any, events: list[TraceEvent], name: str) -> Ints:
        if self._exact:
            return np.array([round(getattr(event, name) * 1000) for event in events], np.int64)
        if float in self.types and np.abs(microseconds).max(initial=0) >= 2.0**43:
            raise _CoarseError  # from there on, a float of µs is no longer exact to the ns
        whole = np.floor(microseconds)
        return whole.astype(np.int64) * 1000 + np.rint((microseconds - whole) * 1000).astype(np.int64)

    def columns(self) -> EventColumns:
        """Return the columns of all events that were added."""
        parts: list[list[Any]] = self._parts or [[np.empty(0, np.int64)] * len(_COLUMNS)]
        columns = [list(column) for column in zip(*parts, strict=True)]
        parts.clear()
        found = {}
        for name in _COLUMNS:  # one by one, as the blocks and the whole take twice the memory
            found[name] = np.concatenate(columns.pop(0))
            fits = found[name].min(initial=0) >= -(2**31) and found[name].max(initial=0) < 2**31
            if name in _NARROW and fits:
                found[name] = found[name].astype(np.int32)
        return EventColumns(**found)


def _integers(args: list[Args], name: str) -> Ints:
    """Return an argument of each event; one that is not a number counts as missing, as a stream "0x0" does."""
    values = [*map(attrgetter(name), args)]
    if set(map(type, values)) <= {int}:
        with suppress(OverflowError):
            return np.array(values, np.int64)
    return np.array([_integer(value, getattr(NO_ARGS, name)) for value in values], np.int64)


def _integer(value: Any, missing: int) -> int:
    try:
        number = value if isinstance(value, int) else int(float(value))
    except (TypeError, ValueError, OverflowError):
        return missing
    return number if -(2**63) <= number < 2**63 else missing


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return -1.0
