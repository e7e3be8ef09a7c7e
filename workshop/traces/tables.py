"""The tables of `workshop trace`, by the names that `--tables` takes: what makes their rows, and what is shown of them.

A table is declared here, and nowhere else; its rows are made by the analysis that it names.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from workshop.probe.phases import TRACED
from workshop.traces import annotations, breakdown, by_line, memory, path, steps, time_series
from workshop.traces.breakdown import Row
from workshop.traces.trace import Trace
from workshop.traces.trace_files import Rank, Traces


class ColumnUnit(Enum):
    """What a person reads numbers in: what those of the rows are divided by, and the digits behind the point."""

    MS = "ms", 1000, 3
    US = "µs", 1, 1
    MB = "MB", 1e6, 1
    GB_PER_S = "GB/s", 1, 2
    PERCENT = "%", 1, 1
    SHARE = "% of a value from 0 to 1", 0.01, 1
    MEAN = "a mean", 1, 1

    def text(self, value: float) -> str:
        """Return a number of a row as a person reads it."""
        _, divisor, digits = self.value
        return f"{value / divisor:.{digits}f}"


class Column(NamedTuple):
    """A column of a table as a person reads it; `--json` and `--csv` have all keys of the rows."""

    heading: str
    key: str
    """The key of its values in the rows."""
    unit: ColumnUnit | None = None
    """None for texts and counts, which are shown as they are, aligned to the left."""
    is_label: bool = False
    """Whether it only says what a row is about: a table of labels alone is not shown."""
    is_name: bool = False
    """Whether its texts are names, which are cut where the terminal is narrow."""
    is_kernel: bool = False
    """Whether they are names of kernels, whose types are left out."""


DEVICE = Column("device", "device", is_label=True)
NAME = Column("name", "name", is_label=True, is_name=True)
STREAM = Column("stream", "stream", is_label=True)
COUNT = Column("count", "count")
PHASE = Column("phase", "phase")


NOTHING = "There is nothing of this in the trace. One of a CPU alone has no kernels, launches and copies."


class Table(NamedTuple):
    """A table."""

    title: str
    analysis: Callable[[Any], Any]
    """What makes the rows of one trace, or its only row; where it compares ranks, the rows of all traces."""
    columns: tuple[Column, ...]
    compares_ranks: bool = False
    without_rows: str = NOTHING
    """What is said where it has no rows."""
    comes_with: tuple[str, ...] = ()
    """The names of the tables that are printed with it."""

    def rows(self, traces: Traces) -> list[Row]:
        """Return its rows."""
        return self.analysis(traces) if self.compares_ranks else rows_of_all(traces, self.analysis)


def rows_of_all(traces: dict[Rank, Trace], analysis: Callable[[Trace], Any]) -> list[Row]:
    """Return the rows of an analysis for several traces, with the rank in front."""
    rows = []
    for rank, trace in traces.items():
        found = analysis(trace)
        rows += [{"rank": rank} | row for row in (found if isinstance(found, list) else [found])]
    return rows


def _table(title: str, analysis: Callable[[Any], Any], *columns: Column, **options: Any) -> Table:
    return Table(title, analysis, columns, **options)


NO_MEMORY = "No memory was recorded; `workshop record torch --memory -- SCRIPT` records it."

TABLES = {
    "temporal": _table(
        "Where the time of each device goes",
        breakdown.temporal,
        DEVICE,
        Column("ms", "kernel_time(us)", ColumnUnit.MS),
        Column("compute %", "compute_time_pctg", ColumnUnit.PERCENT),
        Column("other %", "non_compute_time_pctg", ColumnUnit.PERCENT),
        Column("idle %", "idle_time_pctg", ColumnUnit.PERCENT),
        Column("before ms", "before(us)", ColumnUnit.MS),
        Column("after ms", "after(us)", ColumnUnit.MS),
    ),
    "idle": _table(
        "Why each stream is idle",
        breakdown.idle,
        DEVICE,
        STREAM,
        Column("why", "idle_category", is_label=True),
        Column("ms", "idle_time", ColumnUnit.MS),
        Column("share %", "idle_time_ratio", ColumnUnit.SHARE),
    ),
    "overlap": _table(
        "Communication, and how much of it is hidden under computation",
        breakdown.comm_comp,
        Column("communication ms", "communication_time(us)", ColumnUnit.MS),
        Column("hidden %", "comp_comm_overlap_pctg", ColumnUnit.PERCENT),
        without_rows="No kernel in the trace communicates.",
    ),
    "launch": _table(
        "Launches",
        breakdown.launch_summary,
        Column("launches", "launches"),
        Column("call µs", "cpu_duration(us)", ColumnUnit.US),
        Column("kernel µs", "gpu_duration(us)", ColumnUnit.US),
        Column("delay µs", "median_launch_delay(us)", ColumnUnit.US),
        Column("call > kernel %", "launched_longer_than_run_pctg", ColumnUnit.PERCENT),
    ),
    "types": _table(
        "Time by kind of kernel",
        breakdown.kernel_types,
        Column("kind", "kernel_type"),
        Column("ms", "sum", ColumnUnit.MS),
        Column("share %", "percentage", ColumnUnit.PERCENT),
    ),
    "kernels": _table(
        "Kernels, copies and sets",
        breakdown.kernels,
        NAME._replace(heading="kernel", is_kernel=True),
        COUNT._replace(heading="runs"),
        Column("ms", "sum (us)", ColumnUnit.MS),
        Column("mean µs", "mean (us)", ColumnUnit.US),
        comes_with=("types",),
    ),
    "operators": _table(
        "Operators by the time that they took themselves",
        breakdown.operators,
        NAME,
        COUNT._replace(heading="calls"),
        Column("self ms", "self_cpu(us)", ColumnUnit.MS),
        Column("total ms", "total_cpu(us)", ColumnUnit.MS),
        Column("device ms", "self_device(us)", ColumnUnit.MS),
    ),
    "lines": _table(
        "By line of your code: the time of the device, or else of the operators",
        by_line.line_rows,
        NAME._replace(heading="line", key="place"),
        Column("source", "source", is_name=True),
        Column("runs", "runs"),
        Column("host ms", "host(us)", ColumnUnit.MS),
        Column("device ms", "device(us)", ColumnUnit.MS),
        Column("operators ms", "operators(us)", ColumnUnit.MS),
        Column("share %", "share_pctg", ColumnUnit.PERCENT),
        comes_with=("line_sums",),
    ),
    "line_sums": _table(
        "What the lines add up to",
        by_line.sum_row,
        Column("of", "of"),
        Column("sum ms", "sum(us)", ColumnUnit.MS),
        Column("recorded ms", "recorded(us)", ColumnUnit.MS),
        Column("in lines %", "in_lines_pctg", ColumnUnit.PERCENT),
        Column("stacks", "stacks"),
    ),
    "steps": _table(
        "Steps, and what the thread that trains did in them (ms)",
        steps.step_rows,
        Column("step", "step"),
        Column("all", "duration(us)", ColumnUnit.MS),
        *(Column(phase.short, f"{phase}(us)", ColumnUnit.MS) for phase in TRACED),
        without_rows="No steps are marked in the trace: the profiler's step() has to be called after each of them.",
        comes_with=("stragglers",),
    ),
    "path": _table(
        "The critical path: what the end of a typical step waited for",
        lambda trace: path.path_rows(path.of_typical_step(trace)),
        Column("of", "step"),
        Column("kind", "kind"),
        Column("ms", "time(us)", ColumnUnit.MS),
        Column("share %", "share_pctg", ColumnUnit.PERCENT),
        comes_with=("path_operators",),
    ),
    "path_operators": _table(
        "Operators and kernels on the critical path, and the step without each of them",
        lambda trace: path.operator_rows(path.of_typical_step(trace)),
        NAME._replace(heading="on the path", is_kernel=True),
        NAME._replace(heading="launched by", key="launched_by"),
        COUNT._replace(heading="runs"),
        Column("ms", "time(us)", ColumnUnit.MS),
        Column("share %", "share_pctg", ColumnUnit.PERCENT),
        Column("without ms", "without(us)", ColumnUnit.MS),
        Column("gain %", "gain_pctg", ColumnUnit.PERCENT),
    ),
    "annotations": _table(
        "Annotations, on the CPU and on the streams of a device",
        annotations.annotation_rows,
        NAME,
        Column("count", "cpu count"),
        Column("CPU ms", "cpu sum (us)", ColumnUnit.MS),
        Column("mean", "cpu mean (us)", ColumnUnit.MS),
        Column("device ms", "gpu sum (us)", ColumnUnit.MS),
        Column("mean", "gpu mean (us)", ColumnUnit.MS),
    ),
    "queue": _table(
        "Launches that have not begun: how many, and how long each queue is empty or full",
        time_series.queue_rows,
        DEVICE,
        STREAM,
        Column("launches", "launches"),
        Column("mean", "mean_length", ColumnUnit.MEAN),
        Column("max", "max_length"),
        Column("empty %", "empty_time_pctg", ColumnUnit.PERCENT),
        Column("starved %", "starved_time_pctg", ColumnUnit.PERCENT),
        Column("at most ms", "longest_starved(us)", ColumnUnit.MS),
        Column("full %", "full_time_pctg", ColumnUnit.PERCENT),
    ),
    "memory": _table(
        "Copies and sets",
        breakdown.copies,
        NAME,
        COUNT,
        Column("MB", "bytes", ColumnUnit.MB),
        Column("ms", "time(us)", ColumnUnit.MS),
        Column("GB/s", "bandwidth(GB/s)", ColumnUnit.GB_PER_S),
        Column("hidden %", "under_computation_pctg", ColumnUnit.PERCENT),
    ),
    "bandwidth": _table(
        "Bandwidth of copies and sets while they run (GB/s)",
        time_series.bandwidth_rows,
        DEVICE,
        Column("kind", "kind"),
        Column("ms", "time(us)", ColumnUnit.MS),
        Column("mean", "mean(GB/s)", ColumnUnit.GB_PER_S),
        Column("max", "max(GB/s)", ColumnUnit.GB_PER_S),
        without_rows="No copy in the trace tells its number of bytes.",
    ),
    "allocations": _table(
        "Memory that each phase allocated and released",
        memory.by_phase,
        DEVICE,
        PHASE,
        Column("allocations", "allocations"),
        Column("MB", "allocated(bytes)", ColumnUnit.MB),
        Column("releases", "releases"),
        Column("MB", "released(bytes)", ColumnUnit.MB),
        Column("peak MB", "peak(bytes)", ColumnUnit.MB),
        without_rows=NO_MEMORY,
        comes_with=("peaks", "held"),
    ),
    "peaks": _table(
        "When most memory was in use",
        memory.peaks,
        DEVICE,
        Column("MB", "peak(bytes)", ColumnUnit.MB),
        Column("reserved MB", "reserved(bytes)", ColumnUnit.MB),
        Column("step", "step"),
        PHASE,
        Column("recorded %", "recorded_pctg", ColumnUnit.PERCENT),
        without_rows=NO_MEMORY,
    ),
    "held": _table(
        "What was in use then, by the operators that allocated it",
        memory.held,
        DEVICE,
        NAME,
        NAME._replace(heading="in", key="allocated_in"),
        PHASE,
        COUNT,
        Column("MB", "bytes", ColumnUnit.MB),
        Column("share %", "share_pctg", ColumnUnit.PERCENT),
        without_rows=NO_MEMORY,
    ),
    "stragglers": _table(
        "Ranks in an average step, the slowest first",
        steps.stragglers,
        Column("steps", "steps"),
        Column("step ms", "step(us)", ColumnUnit.MS),
        Column("work ms", "own_work(us)", ColumnUnit.MS),
        Column("communication ms", "communication(us)", ColumnUnit.MS),
        Column("behind ms", "behind(us)", ColumnUnit.MS),
        compares_ranks=True,
        without_rows="No ranks can be compared: it takes steps of the same numbers, and communication in them.",
    ),
}


def tables(traces: Traces, names: Iterable[str] | None = None) -> dict[str, list[Row]]:
    """Return the rows of all `TABLES` by name, or those of some of them and of what comes with these."""
    wanted = TABLES if names is None else [each for name in names for each in (name, *TABLES[name].comes_with)]
    return {name: TABLES[name].rows(traces) for name in dict.fromkeys(wanted)}


MAX_ROWS = 10
"""Rows of a table, at most, that are shown; JSON and CSV have all."""


class TextTable(NamedTuple):
    """A table whose cells are texts."""

    title: str
    columns: list[Column]
    rows: list[list[str]]
    left_out: int
    """The number of rows that are not shown."""


def text_table(name: str, rows: list[Row], several: bool) -> TextTable | None:
    """Return a table as text, with its first rows; None if it has only labels.

    Args:
        name: the name of the table.
        rows: its rows.
        several: whether they are of several ranks.
    """
    table = TABLES[name]
    columns = [column for column in table.columns if any(row.get(column.key) not in (None, 0.0) for row in rows)]
    if all(column.is_label for column in columns):
        return None
    columns = [Column("rank", "rank")] * several + columns
    shown = _of_each_rank(rows)
    body = [[_cell(row.get(column.key), column) for column in columns] for row in shown]
    return TextTable(table.title, columns, body, len(rows) - len(shown))


def _of_each_rank(rows: list[Row]) -> list[Row]:
    """Return the first rows of each rank, up to the same number, which is at least 3."""
    by_rank: dict[Any, list[Row]] = {}
    for row in rows:
        by_rank.setdefault(row.get("rank"), []).append(row)
    most = max(3, MAX_ROWS // max(len(by_rank), 1))
    return [row for each in by_rank.values() for row in each[:most]]


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if column.unit:
        return column.unit.text(value)
    return short(str(value)) if column.is_kernel else str(value)


def short(name: str) -> str:
    """Return a kernel's name without its types, which fill pages, but with the function that it applies."""
    if name.startswith(("Mem", "enumerate(")):
        return name
    functors = re.findall(r"\w*(?:[Ff]unctor|_op)\w*", name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    plain = re.split(r"[<(]", plain)[0]
    return f"{plain}<{functors[-1]}>" if functors and functors[-1] not in plain else plain or name
