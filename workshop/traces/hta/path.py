"""The critical path as HolisticTraceAnalysis finds it, in an object with the names that notebooks use of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workshop.probe.garbage import no_collections
from workshop.traces.decoding import TraceError
from workshop.traces.hta import COMMUNICATION, hta_events
from workshop.traces.hta.frames import data_frame
from workshop.traces.hta.graph import CPEdge, CPEdgeType, CPNode, HtaEvent, HtaGraph, KernelEdges
from workshop.traces.rewriting import exact_us, rewrite, written_events
from workshop.traces.trace import Trace

if TYPE_CHECKING:
    import pandas

SHOWN = (CPEdgeType.DEPENDENCY, CPEdgeType.KERNEL_LAUNCH_DELAY, CPEdgeType.SYNC_DEPENDENCY)
"""The edges that lead from one event to another: these are arrows."""


class CPGraph(HtaGraph):
    """A graph of dependencies and the longest path through it. Events are named by their position in the file.

    Attributes:
        node_list: all nodes.
        critical_path_nodes: the numbers of the nodes on the path.
        critical_path_events_set: the events of these nodes.
        critical_path_edges_set: the edges between these nodes.
    """

    def __init__(self, trace: Trace, rank: int, window: tuple[int, int], data_load_events: list[str] | None) -> None:
        with no_collections():
            super().__init__(trace, *window, data_load_events)
            KernelEdges(self).add()
        self.rank = rank
        self.trace = trace
        self.critical_path_nodes: list[int] = []
        self.critical_path_events_set: set[int] = set()
        self.critical_path_edges_set: set[CPEdge] = set()

    def all_edges(self) -> Iterator[CPEdge]:
        """Yield all edges of the graph."""
        for edges in self.after.values():
            yield from edges.values()

    @no_collections()
    def critical_path(self) -> bool:
        """Find the longest path, and return whether there is one: there is none through a graph with a cycle."""
        order = self._topological_order()
        if len(order) < len(self.node_list) or not order or self._synchronises_own_stream():
            return False
        length: dict[int, int] = {}
        came_from: dict[int, int] = {}
        for node in order:
            longest, origin = -1, node
            for each, edge in self.before[node].items():
                reached = length[each] + max(edge.weight, 0)
                if reached > longest:
                    longest, origin = reached, each
            length[node], came_from[node] = max(longest, 0), origin
        node = max(order, key=length.__getitem__)
        path = [node]
        while came_from[node] != node:
            node = came_from[node]
            path.append(node)
        self.critical_path_nodes = path[::-1]
        self.critical_path_events_set = {self.node_list[node].ev_idx for node in path}
        pairs = zip(self.critical_path_nodes, self.critical_path_nodes[1:], strict=False)
        self.critical_path_edges_set = {self.after[one][other] for one, other in pairs}
        return True

    def _topological_order(self) -> list[int]:
        waiting = {node: len(edges) for node, edges in self.before.items()}
        order = [node for node, count in waiting.items() if not count]
        for node in order:  # grows on the way
            for child in self.after[node]:
                waiting[child] -= 1
                if not waiting[child]:
                    order.append(child)
        return order

    def _synchronises_own_stream(self) -> bool:
        edges = (edge for edge in self.all_edges() if edge.type == CPEdgeType.SYNC_DEPENDENCY)
        streams = ([self.events[event].stream for event in self.get_events_for_edge(edge)] for edge in edges)
        return any(one == other != -1 for one, other in streams)

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """Return the nodes of an event's start and end."""
        return self.start_node.get(ev_id), self.end_node.get(ev_id)

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """Return the events that an edge connects."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """Return the event that the weight of an edge counts for."""
        return edge.event

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        """Return the edges whose weight counts for an event."""
        return [edge for edge in self.all_edges() if edge.event == ev_idx]

    def get_critical_path_breakdown(self) -> "pandas.DataFrame | None":
        """Return a row for each edge of the path: its event, how long it is in µs, and what bounds it."""
        columns = ["event_idx", "duration", "type", "s_name", "cat", "pid", "tid", "stream", "index", "bound_by"]
        rows = [self._row(edge) for edge in sorted(self.critical_path_edges_set, key=lambda edge: edge.begin)]
        return data_frame(rows, columns) if rows else None

    def _event(self, edge: CPEdge) -> HtaEvent | None:
        return None if edge.event is None else self.events.get(edge.event)

    def _row(self, edge: CPEdge) -> dict[str, Any]:
        index, event = edge.event, self._event(edge)
        row = {"event_idx": index, "duration": edge.weight, "type": edge.type.value, "bound_by": self._bound_by(edge)}
        if event is None:
            return row | {"s_name": "ROOT"} if index is not None else row
        columns = {"s_name": event.name, "cat": event.cat, "pid": event.pid, "tid": event.tid}
        return row | columns | {"stream": event.stream, "index": index}

    def _bound_by(self, edge: CPEdge) -> str:
        if edge.type == CPEdgeType.KERNEL_KERNEL_DELAY:
            return "gpu_kernel_kernel_overhead"
        if edge.type == CPEdgeType.KERNEL_LAUNCH_DELAY:
            return "gpu_kernel_launch_overhead"
        event = self._event(edge)
        if edge.type != CPEdgeType.OPERATOR_KERNEL or event is None:
            return ""
        if event.stream < 0:
            wanted = self.data_load
            return "data_loading" if wanted and wanted.search(event.name) else "cpu_bound"
        return "gpu_communication_bound" if COMMUNICATION.match(event.name) else "gpu_compute_bound"

    def summary(self) -> "pandas.Series[float]":
        """Return the share of each bound in the path, in percent."""
        found = self.get_critical_path_breakdown()
        if found is None:
            raise TraceError("there is no critical path: find it with critical_path() first")
        return found.groupby("bound_by").duration.sum() / found.duration.sum() * 100

    def show_critical_path(self) -> None:
        """Print the nodes of the path."""
        for node in self.critical_path_nodes:
            print(self.node_list[node])


def window_of(trace: Trace, annotation: str, instance_id: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return the start and end in µs of an instance of the annotations with a word in their name; "" is everything."""
    events = hta_events(trace)
    first, last = instance_id if isinstance(instance_id, tuple) else (instance_id or 0, instance_id or 0)
    named = np.array([annotation in name for name in trace.names] or [False])[events.name]
    chosen = np.flatnonzero(named)
    chosen = chosen if annotation == "" else chosen[first : last + 1]
    if not len(chosen):
        raise TraceError(f"the trace has {named.sum()} annotations with {annotation!r}, and no instance {instance_id}")
    start, end = events.ts[chosen].astype(np.int64), (events.ts[chosen] + events.dur[chosen]).astype(np.int64)
    return int(start.min()), int(end.max())


def overlay(graph: CPGraph, target: Path, only_critical: bool, all_edges: bool) -> None:
    """Write a trace with a critical path.

    `only_critical` leaves out other events than those of the path and annotations; with `all_edges`, every edge of the
    graph is an arrow, and not only those of the path.
    """
    if all_edges:
        delay = CPEdgeType.KERNEL_LAUNCH_DELAY
        edges = [edge for edge in graph.all_edges() if edge.type != delay or edge.weight]
    else:
        edges = [edge for edge in graph.critical_path_edges_set if edge.type in SHOWN]
    marked = {event: {"critical": 1} for event in graph.critical_path_events_set}
    rewrite(graph.trace.path, target, _arrows(graph, edges), marked, only_critical)


def _arrows(graph: CPGraph, edges: list[CPEdge]) -> Iterator[dict[str, Any]]:
    """Yield the start and the end of each arrow."""
    touched = {event for edge in edges for event in graph.get_events_for_edge(edge)}
    written = written_events(graph.trace.path, touched)
    for number, edge in enumerate(sorted(edges, key=lambda edge: (edge.begin, edge.end))):
        critical = edge in graph.critical_path_edges_set
        args = {"weight": edge.weight, "critical": critical, "type": edge.type.value}
        common = {"id": number, "name": "critical_path", "cat": "critical_path", "args": args}
        for end, node in zip(({"ph": "s"}, {"ph": "f", "bp": "e"}), (edge.begin, edge.end), strict=True):
            event = written[graph.node_list[node].ev_idx]
            yield end | common | {"pid": event.pid, "tid": event.tid, "ts": exact_us(_time(graph, node))}


def _time(graph: CPGraph, node: int) -> int:
    """Return where an arrow touches an event in ns: before its end on a device, where the next event may begin."""
    trace = graph.trace
    row = int(np.searchsorted(trace.events.index, graph.node_list[node].ev_idx))
    start, end = int(trace.events.ts[row]), int(trace.events.end[row])
    return start if graph.node_list[node].is_start else max(end - int(trace.on_gpu[row]), start)
