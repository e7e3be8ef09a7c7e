"""The graph of dependencies by the rules of HolisticTraceAnalysis (traceinsight 0.6.1), including its known errors.

Times are in µs, and an event is named by its position in the file. `dependencies` has the exact rules.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from workshop.traces.hta import hta_events
from workshop.traces.trace import Trace

LAUNCHING = re.compile(
    r"((cuda|hip)LaunchKernel|cudaLaunchKernelExC|cuLaunchKernel(Ex)?|(cuda|hip)Mem(cpy|set)Async|hipMemcpyWithStream"
    r"|hipExtModuleLaunchKernel|runFunction - job_prep_and_submit_for_execution)$"
)

LOCKING = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"}
"""The calls of which only one runs at a time."""

BLOCKING = {
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpyAsync",
}
"""The calls whose own time counts for nothing."""


class CPNode(NamedTuple):
    """The start or end of an event, which is named by its position in the file; `ts` is in µs."""

    idx: int
    ev_idx: int
    ts: int
    is_start: bool
    is_blocking: bool


class CPEdgeType(Enum):
    """What an edge stands for."""

    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


class CPEdge(NamedTuple):
    """An edge from the node `begin` to the node `end`; its weight is in µs."""

    begin: int
    end: int
    type: CPEdgeType
    weight: int = 0
    event: int | None = None
    """The event that the weight counts for."""


class HtaEvent(NamedTuple):
    """An event as the original has it; times in µs."""

    place: int
    name: str
    cat: str
    ts: int
    dur: int
    stream: int
    correlation: int
    partner: int
    """The position of its launching call, or of what it launched; 0 or less without."""
    pid: int
    tid: int
    waits_on: int
    waits_on_stream: int

    @property
    def end(self) -> int:
        """The end in µs."""
        return self.ts + self.dur


def events_of(trace: Trace) -> dict[int, HtaEvent]:
    """Return all events by their position in the file."""
    found = hta_events(trace)
    columns = [found.ts.astype(np.int64), found.dur.astype(np.int64), found.stream, found.correlation, found.partner]
    columns += [trace.events.pid, trace.events.tid, trace.events.waits_on, trace.events.waits_on_stream]
    names = [trace.names[name] for name in found.name.tolist()]
    cats = [trace.cats[cat] for cat in found.cat.tolist()]
    rows = zip(found.place.tolist(), names, cats, *(column.tolist() for column in columns), strict=True)
    return {row[0]: HtaEvent(*row) for row in rows}


class HtaGraph:
    """The graph of the events of a trace from a start to an end in µs.

    `data_load_events` are regular expressions of the names of further events that are waits for data.
    """

    def __init__(self, trace: Trace, start: int, end: int, data_load_events: list[str] | None) -> None:
        self.all = events_of(trace)
        self.data_load = re.compile("|".join(data_load_events)) if data_load_events else None
        self.events = {place: self.all[place] for place in sorted(self._inside(start, end))}
        self.node_list: list[CPNode] = []
        self.start_node: dict[int, CPNode] = {}
        self.end_node: dict[int, CPNode] = {}
        self.after: dict[int, dict[int, CPEdge]] = {}
        """The edges from each node, by the node where they end."""
        self.before: dict[int, dict[int, CPEdge]] = {}
        """The edges to each node, by the node where they begin."""
        self._add_nodes()
        self._add_locks()
        self._add_threads()

    def _inside(self, start: int, end: int) -> set[int]:
        """Return the events of the window; what runs on a device belongs to its launching call."""
        calls = {
            event.place for event in self.all.values() if event.stream == -1 and start <= event.ts <= end and event.dur
        }
        launched = {self.all[place].partner for place in calls}
        waits = {event.partner for event in self.all.values() if event.stream == -1}
        return calls | {
            event.place
            for event in self.all.values()
            if event.stream != -1
            and (event.place in launched or (event.name == "Stream Wait Event" and event.place in waits))
        }

    def _has_nodes(self, event: HtaEvent) -> bool:
        if event.cat in ("cpu_op", "cuda_runtime", "cuda_driver") or (event.stream != -1 and event.partner >= 0):
            return True
        return self.data_load is not None and self.data_load.search(event.name) is not None

    def _add_nodes(self) -> None:
        events = [event for event in self.events.values() if self._has_nodes(event)]
        bounds = [(event.ts, event.place, False) for event in events]
        bounds += [(event.ts + event.dur, event.place, True) for event in events]
        for idx, (ts, place, is_end) in enumerate(sorted(bounds)):
            node = CPNode(idx, place, ts, not is_end, self.all[place].name in BLOCKING)
            self.node_list.append(node)
            self.after[idx], self.before[idx] = {}, {}
            (self.end_node if is_end else self.start_node)[place] = node

    def add(self, begin: CPNode, end: CPNode, kind: CPEdgeType, free: bool = False, parent: int = -1) -> None:
        """Add an edge; `parent` is the event around the one that it begins with."""
        free = free or kind in (CPEdgeType.DEPENDENCY, CPEdgeType.SYNC_DEPENDENCY)
        event = None
        if kind == CPEdgeType.KERNEL_KERNEL_DELAY or (kind == CPEdgeType.OPERATOR_KERNEL and begin.is_start):
            event = begin.ev_idx
        elif kind == CPEdgeType.OPERATOR_KERNEL:
            event = parent if end.is_start else end.ev_idx
        edge = CPEdge(begin.idx, end.idx, kind, 0 if free else end.ts - begin.ts, event)
        self.after[begin.idx][end.idx] = self.before[end.idx][begin.idx] = edge

    def _locks(self, node: CPNode) -> bool:
        return self.all[node.ev_idx].name in LOCKING

    def _add_locks(self) -> None:
        """Add edges between calls on any thread that overlap: the one that ends first had the lock first."""
        started: list[CPNode] = []
        last: CPNode | None = None
        for node in filter(self._locks, self.node_list):
            if node.is_start:
                started.append(node)
                last = None
                continue
            for start in reversed(started):
                same = start.ev_idx == node.ev_idx
                self.add(start, node, CPEdgeType.OPERATOR_KERNEL if same else CPEdgeType.DEPENDENCY)
            started.clear()
            if last:
                self.add(last, node, CPEdgeType.DEPENDENCY)
            last = node

    def _add_threads(self) -> None:
        """Add edges along each thread; the backward pass belongs to the thread of the forward pass."""
        forward, backward = self._only_thread("forward"), self._only_thread("autograd")
        threads: dict[tuple[int, int], list[HtaEvent]] = defaultdict(list)
        for event in self.events.values():
            merged = None not in (forward, backward) and event.tid == backward
            threads[event.pid, forward if merged and forward is not None else event.tid].append(event)
        for _, events in sorted(threads.items()):
            if all(event.stream < 0 for event in events):
                self._add_thread(events)

    def _only_thread(self, word: str) -> int | None:
        cats = ("cpu_op", "user_annotation")
        tids = {event.tid for event in self.events.values() if word in event.name and event.cat in cats}
        return tids.pop() if len(tids) == 1 else None

    def _add_thread(self, events: list[HtaEvent]) -> None:
        last: CPNode | None = None
        parent, depth = -1, 0
        for event, around, enters in _traversed(events):
            start, end = self.start_node.get(event.place), self.end_node.get(event.place)
            if start is None or end is None:
                continue
            node = start if enters else end
            if last is not None and not (
                self._locks(last) and self._locks(node) and (last.is_start or not node.is_start)
            ):
                outside = enters and depth == 0
                kind = CPEdgeType.DEPENDENCY if outside else CPEdgeType.OPERATOR_KERNEL
                self.add(last, node, kind, free=not enters and start.is_blocking, parent=parent)
            last, parent = node, around
            depth += 1 if enters else -1


def _traversed(events: list[HtaEvent]) -> Iterator[tuple[HtaEvent, int, bool]]:
    """Yield the starts and ends of the events of a thread as they called each other, each with the event around it."""
    bounds = [(event.ts, 1, -event.dur, event.place) for event in events]
    bounds += [(event.end, 0, event.dur, -event.place) for event in events]
    by_place = {event.place: event for event in events}
    around = [-1]
    for _, is_start, _, place in sorted(bounds):
        if is_start:
            yield by_place[place], around[-1], True
            around.append(place)
        elif len(around) > 1:
            place = around.pop()
            yield by_place[place], around[-1], False
    while len(around) > 1:
        place = around.pop()
        yield by_place[place], around[-1], False


class KernelEdges:
    """Finds the edges from and to kernels of a graph."""

    def __init__(self, graph: HtaGraph) -> None:
        self.graph = graph
        self.all = graph.all
        calls = [event for event in graph.all.values() if event.partner > 0 and LAUNCHING.match(event.name)]
        self.calls = sorted(calls, key=lambda call: call.ts)
        self.queued = _queue_lengths(graph.all, self.calls)
        self.records: dict[int, HtaEvent] = {}
        for event in graph.all.values():
            if event.name == "cudaEventRecord":
                self.records.setdefault(event.correlation, event)
        self.last: dict[int, CPNode] = {}
        """The end of what ran last, by stream."""
        self.awaited: dict[int, int] = {}
        self.launched: dict[tuple[int, int], list[HtaEvent]] = defaultdict(list)
        """The launching calls by the device and stream that they launch into, in the order of time."""
        self.launched_by: dict[tuple[int, int, int, int], list[HtaEvent]] = defaultdict(list)
        """The same, by the process and thread of the call, too."""
        for call in self.calls:
            kernel = self.all[call.partner]
            self.launched[kernel.pid, kernel.stream].append(call)
            self.launched_by[kernel.pid, kernel.stream, call.pid, call.tid].append(call)

    def add(self) -> None:
        """Add all edges from and to kernels."""
        on_device = [
            each
            for each in self.graph.events.values()
            if (each.stream != -1 or each.name in ("Event Sync", "Context Sync")) and each.partner >= 0
        ]
        times = np.array([each.end if each.cat == "cuda_sync" else each.ts for each in on_device])
        for number in np.argsort(times):
            event = on_device[number]
            if event.cat == "cuda_sync":
                self._synchronise(event)
            elif event.place in self.graph.start_node:
                self._kernel(event)

    def _synchronise(self, event: HtaEvent) -> None:
        if event.name in ("Stream Wait Event", "Event Sync"):
            source = self._recorded(event)
            if source is None:
                return
            if event.name == "Event Sync":
                if source in self.graph.end_node:
                    self._call_waits(self.graph.end_node[source], event)
            elif (waiting := self._next_launch(event)) is not None:
                self.awaited[waiting] = source
            return
        nodes = self.last.values() if event.name == "Context Sync" else [self.last.get(event.stream)]
        for node in nodes:
            if node is not None:
                self._call_waits(node, event)

    def _call_waits(self, node: CPNode, event: HtaEvent) -> None:
        if event.partner in self.graph.end_node:
            self.graph.add(node, self.graph.end_node[event.partner], CPEdgeType.SYNC_DEPENDENCY)

    def _recorded(self, event: HtaEvent) -> int | None:
        """Return the last kernel that was launched before the CUDA event was recorded that is waited for."""
        record = self.records.get(event.waits_on)
        if record is None or event.waits_on_stream <= -1:
            return None
        calls = self.launched[event.pid, event.waits_on_stream]
        place = bisect.bisect_right(calls, record.ts, key=lambda call: call.ts)
        return calls[place - 1].partner if place else None

    def _next_launch(self, event: HtaEvent) -> int | None:
        """Return the first kernel that the same thread launches into a stream after it told the stream to wait."""
        told = self.all[event.partner]
        device = next((device for device, stream in self.launched if stream == event.stream), -1)
        calls = self.launched_by[device, event.stream, told.pid, told.tid]
        place = bisect.bisect_left(calls, told.ts, key=lambda call: call.ts)
        return calls[place].partner if place < len(calls) else None

    def _kernel(self, event: HtaEvent) -> None:
        graph, call = self.graph, self.all[event.partner]
        start, end = graph.start_node[event.place], graph.end_node[event.place]
        graph.add(start, end, CPEdgeType.OPERATOR_KERNEL)
        last = self.last.get(event.stream)
        awaited = graph.end_node.get(self.awaited.get(event.place, -1))
        if awaited is not None:
            graph.add(awaited, start, CPEdgeType.SYNC_DEPENDENCY)
        alone = self.queued.get(call.place) == 1 and self.queued.get(event.place) == 0
        if alone and all(node is None or node.ts < call.ts for node in (last, awaited)):
            if call.place in graph.start_node:
                graph.add(graph.start_node[call.place], start, CPEdgeType.KERNEL_LAUNCH_DELAY)
        elif last is not None and start.ts - last.ts < 1500 and (awaited is None or awaited.ts < last.ts):
            # What begins later does not depend on the kernel before it on its stream.
            graph.add(last, start, CPEdgeType.KERNEL_KERNEL_DELAY)
        self.last[event.stream] = end


def _queue_lengths(events: dict[int, HtaEvent], calls: list[HtaEvent]) -> dict[int, int]:
    """Return the length of the queue after each launch and each begin of a kernel."""
    launched = {call.correlation: call for call in sorted(calls, key=lambda call: call.place)}
    kernels = [event for event in events.values() if event.stream != -1 and event.correlation in launched]
    streams = {kernel.correlation: kernel.stream for kernel in kernels}
    changes = [(call.ts, 1, call.place, streams[call.correlation]) for call in launched.values()]
    changes += [(kernel.ts, -1, kernel.place, kernel.stream) for kernel in kernels]
    order = np.argsort(np.array([ts for ts, *_ in changes])).tolist()
    by_stream: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number in order:
        _, step, place, stream = changes[number]
        by_stream[stream].append((place, step))
    lengths: dict[int, int] = {}
    for steps in by_stream.values():
        lengths |= zip(map(itemgetter(0), steps), accumulate(map(itemgetter(1), steps)), strict=True)
    return lengths
