"""The tables of all analyses of some traces, by the names that `workshop trace --only` takes."""

from collections.abc import Callable
from typing import Any

from workshop.profiles.traces import annotations, bandwidth, breakdown, memory, operators, queues, steps
from workshop.profiles.traces.breakdown import Row
from workshop.profiles.traces.path import critical_path
from workshop.profiles.traces.ranks import Rank, Traces
from workshop.profiles.traces.trace import Trace

TABLES: dict[str, Callable[[Trace], Any] | None] = {
    "temporal": breakdown.temporal,
    "idle": breakdown.idle,
    "overlap": breakdown.comm_comp,
    "launch": breakdown.launch_summary,
    "types": breakdown.kernel_types,
    "kernels": breakdown.kernels,
    "operators": operators.operators,
    "steps": steps.step_rows,
    "stragglers": None,
    "path": critical_path.path_rows,
    "path_operators": critical_path.operator_rows,
    "annotations": annotations.annotation_rows,
    "queue": queues.queue_rows,
    "memory": breakdown.copies,
    "bandwidth": bandwidth.bandwidth_rows,
    "allocations": memory.by_phase,
    "peaks": memory.peaks,
    "held": memory.held,
}
"""The tables by name, each with the analysis of a trace that makes it; one of all ranks together has none."""

TOGETHER = {
    "kernels": ("types",),
    "steps": ("stragglers",),
    "path": ("path_operators",),
    "allocations": ("peaks", "held"),
}
"""The tables that come with another one."""


def tables(traces: Traces, only: str | None = None) -> dict[str, list[Row]]:
    """Return the rows of all `TABLES` by name, or those of one of them and of what comes with it."""
    names = TABLES if only is None else (only, *TOGETHER.get(only, ()))
    return {name: _rows(traces, TABLES[name]) for name in names}


def _rows(traces: Traces, analysis: Callable[[Trace], Any] | None) -> list[Row]:
    return rows_of_all(traces, analysis) if analysis else steps.stragglers(traces)


def rows_of_all(traces: dict[Rank, Trace], analysis: Callable[[Trace], Any]) -> list[Row]:
    """Return the rows of an analysis for several traces, with the rank in front."""
    rows = []
    for rank, trace in traces.items():
        found = analysis(trace)
        rows += [{"rank": rank} | row for row in (found if isinstance(found, list) else [found])]
    return rows
