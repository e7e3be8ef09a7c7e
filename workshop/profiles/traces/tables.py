"""The tables of all analyses of some traces, by the names that `workshop trace --only` takes."""

from collections.abc import Callable
from typing import Any

from workshop.profiles.traces import annotations, bandwidth, breakdown, memory, operators, queues, steps
from workshop.profiles.traces.breakdown import Row
from workshop.profiles.traces.path import critical_path
from workshop.profiles.traces.ranks import Rank, Traces
from workshop.profiles.traces.trace import Trace

ANALYSES: dict[str, Callable[[Trace], Any]] = {
    "temporal": breakdown.temporal,
    "idle": breakdown.idle,
    "overlap": breakdown.comm_comp,
    "launch": breakdown.launch_summary,
    "kernels": breakdown.kernels,
    "operators": operators.operators,
    "steps": steps.step_rows,
    "path": critical_path.path_rows,
    "annotations": annotations.annotation_rows,
    "queue": queues.queue_rows,
    "memory": breakdown.copies,
    "bandwidth": bandwidth.bandwidth_rows,
    "allocations": memory.by_phase,
}
"""The analyses of a trace, by the names that `workshop trace --only` takes."""


def tables(traces: Traces, only: str | None = None) -> dict[str, list[Row]]:
    """Return the rows of all analyses by name, or of one of `ANALYSES`.

    The table "types" comes with the kernels, "stragglers" with the steps of several ranks, "path_operators" with the
    path, and with the allocations come "peaks" and "held", what was in use at the peaks.
    """
    found = {name: rows_of_all(traces, analysis) for name, analysis in ANALYSES.items() if only in (None, name)}
    if "kernels" in found:
        found["types"] = rows_of_all(traces, breakdown.kernel_types)
    if "allocations" in found:
        found["peaks"] = rows_of_all(traces, memory.peaks)
        found["held"] = rows_of_all(traces, memory.held)
    if "steps" in found and len(traces) > 1:
        found["stragglers"] = steps.stragglers(traces)
    if "path" in found:
        found["path_operators"] = rows_of_all(traces, critical_path.operator_rows)
    return found


def rows_of_all(traces: dict[Rank, Trace], analysis: Callable[[Trace], Any]) -> list[Row]:
    """Return the rows of an analysis for several traces, with the rank in front."""
    rows = []
    for rank, trace in traces.items():
        found = analysis(trace)
        rows += [{"rank": rank} | row for row in (found if isinstance(found, list) else [found])]
    return rows
