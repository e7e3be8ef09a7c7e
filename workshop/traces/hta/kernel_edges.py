"""The edges from and to kernels in the graph by the rules of HolisticTraceAnalysis."""

import bisect
import re
from collections import defaultdict
from itertools import accumulate
from operator import itemgetter

import numpy as np

from workshop.traces.hta.graph import CPEdgeType, CPNode, HtaEvent, HtaGraph

LAUNCHING = re.compile(
    r"((cuda|hip)LaunchKernel|cudaLaunchKernelExC|cuLaunchKernel(Ex)?|(cuda|hip)Mem(cpy|set)Async|hipMemcpyWithStream"
    r"|hipExtModuleLaunchKernel|runFunction - job_prep_and_submit_for_execution)$"
)


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
