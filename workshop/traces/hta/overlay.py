"""Writes a trace in which a viewer shows the critical path: its events are marked, and arrows connect them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from workshop.traces.decoding import Decoder
from workshop.traces.hta.graph import CPEdge, CPEdgeType
from workshop.traces.hta.path import CPGraph
from workshop.traces.rewriting import exact_us, rewrite
from workshop.traces.trace import Trace

SHOWN = (CPEdgeType.DEPENDENCY, CPEdgeType.KERNEL_LAUNCH_DELAY, CPEdgeType.SYNC_DEPENDENCY)
"""The edges that lead from one event to another: these are arrows."""


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
    threads = _threads(graph.trace.path, {event for edge in edges for event in graph.get_events_for_edge(edge)})
    for number, edge in enumerate(sorted(edges, key=lambda edge: (edge.begin, edge.end))):
        critical = edge in graph.critical_path_edges_set
        args = {"weight": edge.weight, "critical": critical, "type": edge.type.value}
        common = {"id": number, "name": "critical_path", "cat": "critical_path", "args": args}
        for end, node in zip(({"ph": "s"}, {"ph": "f", "bp": "e"}), (edge.begin, edge.end), strict=True):
            pid, tid = threads[graph.node_list[node].ev_idx]
            yield end | common | {"pid": pid, "tid": tid, "ts": exact_us(_time(graph, node))}


def _time(graph: CPGraph, node: int) -> int:
    """Return where an arrow touches an event in ns: before its end on a device, where the next event may begin."""
    trace: Trace = graph.trace
    row = int(np.searchsorted(trace.events.index, graph.node_list[node].ev_idx))
    start, end = int(trace.events.ts[row]), int(trace.events.end[row])
    return start if graph.node_list[node].is_start else max(end - int(trace.on_gpu[row]), start)


def _threads(path: Path, events: set[int]) -> dict[int, tuple[Any, Any]]:
    """Return the process and thread that the file names for some events, which are given by their position."""
    found: dict[int, tuple[Any, Any]] = {}
    count = 0
    for block in Decoder(path, exact=False):
        for position in events & set(range(count, count + len(block))):
            found[position] = block[position - count].pid, block[position - count].tid
        count += len(block)
    return found
