"""The findings and tables of `workshop trace` as text for a terminal."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from workshop.cli.output import filled, plain_table
from workshop.parts import taught_in
from workshop.probe.phases import TRACED
from workshop.terminal import wrapped
from workshop.traces.breakdown import Row
from workshop.traces.tables import TABLES
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import TraceFinding

NOTHING = "There is nothing of this in the trace. One of a CPU alone has no kernels, launches and copies."
NO_MEMORY = "No memory was recorded; `workshop record torch --memory -- SCRIPT` records it."
NOTHING_OF = {
    "overlap": "No kernel in the trace communicates.",
    "steps": "No steps are marked in the trace: the profiler's step() has to be called after each of them.",
    "stragglers": "No ranks can be compared: it takes steps of the same numbers, and communication in them.",
    "bandwidth": "No copy in the trace tells its number of bytes.",
    **dict.fromkeys(("allocations", "peaks", "held"), NO_MEMORY),
}
"""What is printed instead of a table without rows, by the table's name."""

MORE_TABLES = "More: --tables NAME prints another table, --tables all prints all of them, and --help lists them."

MAX_TABLES = 2
"""The number of tables that are printed below the findings."""

WITHOUT_FINDINGS = ("temporal", "operators")
"""The tables that are printed if nothing costs much."""

MAX_ROWS = 10
"""The number of rows that a table shows in a terminal; JSON and CSV have all."""

MIN_ROWS = 3
"""The smallest number of rows that are shown of each rank, if there are several."""

MIN_NAME = 12
"""The smallest width of a cut name, however narrow the terminal is."""

SHORTENED = ("name", "allocated_in", "launched_by")
"""The keys of the columns that are cut if the terminal is narrow."""

LABELS = {"device", "stream", "idle_category", *SHORTENED}
"""The keys of the columns that only say what a row is about."""

UNITS = {
    "ms": (".3f", 1000),
    "µs": (".1f", 1),
    "MB": (".1f", 1e6),
    "GB/s": (".2f", 1),
    "%": (".1f", 1),
    "percent": (".1f", 0.01),
    "mean": (".1f", 1),
}
"""The format and the divisor of numbers, by unit; the rows have µs and bytes."""

TITLES = {
    "temporal": "Where the time of each device goes",
    "idle": "Why each stream is idle",
    "overlap": "Communication, and how much of it is hidden under computation",
    "launch": "Launches",
    "types": "Time by kind of kernel",
    "kernels": "Kernels, copies and sets",
    "operators": "Operators by the time that they took themselves",
    "steps": "Steps, and what the thread that trains did in them (ms)",
    "memory": "Copies and sets",
    "allocations": "Memory that each phase allocated and released",
    "peaks": "When most memory was in use",
    "held": "What was in use then, by the operators that allocated it",
    "path": "The critical path: what the end of a typical step waited for",
    "path_operators": "Operators and kernels on the critical path, and the step without each of them",
    "queue": "Launches that have not begun: how many, and how long each queue is empty or full",
    "bandwidth": "Bandwidth of copies and sets while they run (GB/s)",
    "annotations": "Annotations, on the CPU and on the streams of a device",
    "stragglers": "Ranks in an average step, the slowest first",
}

COLUMNS = {
    "temporal": "device, ms: kernel_time(us), compute %: compute_time_pctg, other %: non_compute_time_pctg, "
    "idle %: idle_time_pctg, before ms: before(us), after ms: after(us)",
    "idle": "device, stream, why: idle_category, ms: idle_time, share %: idle_time_ratio in percent",
    "overlap": "communication ms: communication_time(us), hidden %: comp_comm_overlap_pctg",
    "launch": "launches, call µs: cpu_duration(us), kernel µs: gpu_duration(us), delay µs: median_launch_delay(us), "
    "call > kernel %: launched_longer_than_run_pctg",
    "types": "kind: kernel_type, ms: sum, share %: percentage",
    "kernels": "kernel: name, runs: count, ms: sum (us), mean µs: mean (us)",
    "operators": "name, calls: count, self ms: self_cpu(us), total ms: total_cpu(us), device ms: self_device(us)",
    "steps": ", ".join(["step, all: duration(us) in ms", *(f"{phase.short}: {phase}(us) in ms" for phase in TRACED)]),
    "memory": "name, count, MB: bytes, ms: time(us), GB/s: bandwidth(GB/s), hidden %: under_computation_pctg",
    "allocations": "device, phase, allocations, MB: allocated(bytes), releases, MB: released(bytes), "
    "peak MB: peak(bytes)",
    "peaks": "device, MB: peak(bytes), reserved MB: reserved(bytes), step, phase, recorded %: recorded_pctg",
    "held": "device, name, in: allocated_in, phase, count, MB: bytes, share %: share_pctg",
    "path": "of: step, kind, ms: time(us), share %: share_pctg",
    "path_operators": "on the path: name, launched by: launched_by, runs: count, ms: time(us), share %: share_pctg, "
    "without ms: without(us), gain %: gain_pctg",
    "queue": "device, stream, launches, mean: mean_length in mean, max: max_length, empty %: empty_time_pctg, "
    "starved %: starved_time_pctg, at most ms: longest_starved(us), full %: full_time_pctg",
    "bandwidth": "device, kind, ms: time(us), mean: mean(GB/s) in GB/s, max: max(GB/s) in GB/s",
    "annotations": "name, count: cpu count, CPU ms: cpu sum (us), mean: cpu mean (us) in ms, "
    "device ms: gpu sum (us), mean: gpu mean (us) in ms",
    "stragglers": "steps, step ms: step(us), work ms: own_work(us), communication ms: communication(us), "
    "behind ms: behind(us)",
}
"""The columns of each table: the header, the key in its rows, and the unit unless the header ends with it."""


class Column(NamedTuple):
    """A column of a table in a terminal."""

    header: str
    key: str
    unit: str

    @property
    def is_kernel(self) -> bool:
        """Whether the column has names of kernels."""
        return self.header in ("kernel", "on the path")


def findings_text(traces: Traces, findings: list[TraceFinding], width: int | None) -> str:
    """Return what costs time, and the tables that show what costs most; `width` is None without a terminal."""
    names = [*dict.fromkeys(each.table for each in findings)][:MAX_TABLES] or WITHOUT_FINDINGS
    shown = tables_text({name: TABLES[name](traces) for name in names}, len(traces) > 1, width)
    lines = []
    for each in with_lessons(findings):
        share = f"{'' if each.share is None else f'{each.share:.0%}':>4}  "
        lines.append(wrapped(str(each), width, share, " " * len(share)))
    words = "\n".join(["What it costs, of the whole time", "", *lines]) if lines else "Nothing in it costs much."
    return f"{words}\n\n{shown}\n\n{filled(MORE_TABLES)}"


def with_lessons(findings: list[TraceFinding]) -> list[TraceFinding]:
    """Return the findings, each with the part that teaches what to do about it."""
    taught = ((each, taught_in(each.topic)) for each in findings)
    return [replace(each, text=f"{each.text} ({lesson})") if lesson else each for each, lesson in taught]


def finding_row(finding: TraceFinding) -> Row:
    """Return a finding for JSON."""
    return {"share": finding.share, "text": finding.text, "part": taught_in(finding.topic)}


def tables_text(found: dict[str, list[Row]], several: bool, width: int | None) -> str:
    """Return the tables one below the other, without the empty ones.

    Args:
        found: the rows of the tables, by name.
        several: whether the rows are of several ranks.
        width: the columns of the terminal; None without a terminal.
    """
    texts = [_titled_table(name, rows, several, width) for name, rows in found.items() if rows]
    return "\n\n".join(filter(None, texts)) or filled(nothing(next(iter(found), "")))


def nothing(table: str) -> str:
    """Return what is printed instead of a table without rows."""
    return NOTHING_OF.get(table, NOTHING)


def _columns(name: str) -> list[Column]:
    columns = []
    for text in COLUMNS[name].split(", "):
        header, _, key = text.partition(": ")
        key, _, unit = (key or header).partition(" in ")
        columns.append(Column(header, key, unit or header.split()[-1]))
    return columns


def _titled_table(name: str, rows: list[Row], several: bool, width: int | None) -> str:
    """Return a table with its title; empty if it has only labels."""
    columns = [each for each in _columns(name) if any(row.get(each.key) not in (None, 0.0) for row in rows)]
    if all(column.key in LABELS for column in columns):
        return ""
    columns = [Column("rank", "rank", "")] * several + columns
    shown = _of_each_rank(rows)
    body = [[_cell(row.get(column.key), column) for column in columns] for row in shown]
    if width is not None:
        _shorten_names(body, columns, width)
    headers = [column.header for column in columns]
    right = [number for number, column in enumerate(columns) if column.unit in UNITS]
    more = f"\n... and {len(rows) - len(shown)} more; --json has all" if len(rows) > len(shown) else ""
    return f"{TITLES[name]}\n\n{plain_table(headers, body, right)}{more}"


def _of_each_rank(rows: list[Row]) -> list[Row]:
    """Return the first rows of each rank, up to the same number."""
    by_rank: dict[Any, list[Row]] = {}
    for row in rows:
        by_rank.setdefault(row.get("rank"), []).append(row)
    most = max(MIN_ROWS, MAX_ROWS // max(len(by_rank), 1))
    return [row for each in by_rank.values() for row in each[:most]]


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if column.unit in UNITS:
        form, divisor = UNITS[column.unit]
        return format(value / divisor, form)
    return short(str(value)) if column.is_kernel else str(value)


def _shorten_names(body: list[list[str]], columns: list[Column], width: int) -> None:
    """Cut names so that the table fits the terminal beside the figures."""
    widths = [max(len(head.header), *map(len, cells)) for head, *cells in zip(columns, *body, strict=True)]
    for number, column in enumerate(columns):
        if column.key in SHORTENED:
            room = max(width - sum(widths) + widths[number] - 2 * (len(columns) - 1), MIN_NAME)
            for row in body:
                if len(row[number]) > room:
                    row[number] = f"{row[number][: room - 1]}…"
            widths[number] = min(widths[number], room)


def short(name: str) -> str:
    """Return a kernel's name without its types, which fill pages, but with the function that it applies."""
    if name.startswith(("Mem", "enumerate(")):
        return name
    functors = re.findall(r"\w*(?:[Ff]unctor|_op)\w*", name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    plain = re.split(r"[<(]", plain)[0]
    return f"{plain}<{functors[-1]}>" if functors and functors[-1] not in plain else plain or name


def trace_rows(traces: Traces) -> list[Row]:
    """Return a row for each trace that was read."""
    return [
        {"rank": rank, "file": str(trace.path), "events": len(trace.events), "damage": list(trace.damage)}
        for rank, trace in traces.items()
    ]
