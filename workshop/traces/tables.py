"""The tables of all analyses of some traces, by the names that `workshop trace --tables` takes."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from workshop.traces import annotations, bandwidth, breakdown, memory, queues, steps
from workshop.traces.breakdown import Row
from workshop.traces.path import critical_path
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank, Traces


def rows_of_all(traces: dict[Rank, Trace], analysis: Callable[[Trace], Any]) -> list[Row]:
    """Return the rows of an analysis for several traces, with the rank in front."""
    rows = []
    for rank, trace in traces.items():
        found = analysis(trace)
        rows += [{"rank": rank} | row for row in (found if isinstance(found, list) else [found])]
    return rows


ANALYSES: dict[str, Callable[[Trace], Any]] = {
    "temporal": breakdown.temporal,
    "idle": breakdown.idle,
    "overlap": breakdown.comm_comp,
    "launch": breakdown.launch_summary,
    "types": breakdown.kernel_types,
    "kernels": breakdown.kernels,
    "operators": breakdown.operators,
    "steps": steps.step_rows,
    "path": lambda trace: critical_path.path_rows(critical_path.of_typical_step(trace)),
    "path_operators": lambda trace: critical_path.operator_rows(critical_path.of_typical_step(trace)),
    "annotations": annotations.annotation_rows,
    "queue": queues.queue_rows,
    "memory": breakdown.copies,
    "bandwidth": bandwidth.bandwidth_rows,
    "allocations": memory.by_phase,
    "peaks": memory.peaks,
    "held": memory.held,
}
"""What makes the rows of each table of one trace, by its name."""

TABLES: dict[str, Callable[[Traces], list[Row]]] = {
    **{name: partial(rows_of_all, analysis=analysis) for name, analysis in ANALYSES.items()},
    "stragglers": steps.stragglers,
}
"""What makes the rows of each table of all ranks, by the names that `workshop trace --tables` takes."""

TOGETHER = {
    "kernels": ("types",),
    "steps": ("stragglers",),
    "path": ("path_operators",),
    "allocations": ("peaks", "held"),
}


def tables(traces: Traces, names: Iterable[str] | None = None) -> dict[str, list[Row]]:
    """Return the rows of all `TABLES` by name, or those of some of them and of what comes with these."""
    wanted = TABLES if names is None else [each for name in names for each in (name, *TOGETHER.get(name, ()))]
    return {name: TABLES[name](traces) for name in dict.fromkeys(wanted)}
