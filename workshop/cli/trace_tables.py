"""The tables of `workshop trace` as text for a terminal."""

import re
import textwrap
from typing import Any, NamedTuple

from workshop.cli.output import filled, plain_table
from workshop.probe.phases import TRACED
from workshop.traces.breakdown import Row
from workshop.traces.findings import Finding
from workshop.traces.ranks import Traces

NOTHING = "There is nothing of this in the trace. One of a CPU alone has no kernels, launches and copies."
NO_MEMORY = "No memory was recorded; `workshop record torch --memory -- SCRIPT` records it."
NOTHING_OF = {
    "overlap": "No kernel in the trace communicates.",
    "steps": "No steps are marked in the trace: the profiler's step() has to be called after each of them.",
    "stragglers": "No ranks can be compared: it takes steps of the same numbers, and communication in them.",
    "bandwidth": "No copy in the trace tells its number of bytes.",
    **dict.fromkeys(("allocations", "peaks", "held"), NO_MEMORY),
}
"""What is said in the place of one table and those that come with it."""

MAX_ROWS = 10
"""The number of rows that a table shows in a terminal; JSON and CSV have all."""

MIN_ROWS = 3
"""So many of each rank are shown at least."""

MIN_NAME = 12
"""The number of characters of a name that are shown, however narrow the terminal is."""


class Column(NamedTuple):
    """A column of a table in a terminal."""

    header: str
    key: str
    format: str = ""
    per: float = 1.0
    """The number that a value is divided by: 1000 makes ms of µs."""


def _ms(header: str, key: str) -> Column:
    """Return a column in milliseconds of values in microseconds."""
    return Column(header, key, ".3f", 1000)


def _mb(header: str, key: str) -> Column:
    """Return a column in megabytes of values in bytes."""
    return Column(header, key, ".1f", 1e6)


RANK, NAME, KERNEL = Column("rank", "rank"), Column("name", "name"), Column("kernel", "name")
ON_PATH = Column("on the path", "name")
INNERMOST, LAUNCHER = Column("in", "allocated_in"), Column("launched by", "launched_by")
SHORTENED = (NAME, KERNEL, ON_PATH, INNERMOST, LAUNCHER)
"""The columns that are cut where the terminal is narrow."""

LABELS = {"device", "stream", "idle_category", *(column.key for column in SHORTENED)}
"""The keys of the columns that say what a row is about, and no more."""

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
    "temporal": [
        RANK,
        Column("device", "device"),
        _ms("ms", "kernel_time(us)"),
        Column("compute %", "compute_time_pctg", ".1f"),
        Column("other %", "non_compute_time_pctg", ".1f"),
        Column("idle %", "idle_time_pctg", ".1f"),
    ],
    "idle": [
        RANK,
        Column("device", "device"),
        Column("stream", "stream"),
        Column("why", "idle_category"),
        _ms("ms", "idle_time"),
        Column("share %", "idle_time_ratio", ".1f", 0.01),
    ],
    "overlap": [
        RANK,
        _ms("communication ms", "communication_time(us)"),
        Column("hidden %", "comp_comm_overlap_pctg", ".1f"),
    ],
    "launch": [
        RANK,
        Column("launches", "launches"),
        Column("call µs", "cpu_duration(us)", ".1f"),
        Column("kernel µs", "gpu_duration(us)", ".1f"),
        Column("delay µs", "median_launch_delay(us)", ".1f"),
        Column("call > kernel %", "launched_longer_than_run_pctg", ".0f"),
    ],
    "types": [RANK, Column("kind", "kernel_type"), _ms("ms", "sum"), Column("share %", "percentage", ".1f")],
    "kernels": [RANK, KERNEL, Column("runs", "count"), _ms("ms", "sum (us)"), Column("mean µs", "mean (us)", ".1f")],
    "operators": [
        RANK,
        NAME,
        Column("calls", "count"),
        _ms("self ms", "self_cpu(us)"),
        _ms("total ms", "total_cpu(us)"),
        _ms("device ms", "self_device(us)"),
    ],
    "steps": [RANK, Column("step", "step"), _ms("all", "duration(us)")]
    + [_ms(phase.short, f"{phase}(us)") for phase in TRACED],
    "memory": [
        RANK,
        NAME,
        Column("count", "count"),
        _mb("MB", "bytes"),
        _ms("ms", "time(us)"),
        Column("GB/s", "bandwidth(GB/s)", ".1f"),
        Column("hidden %", "under_computation_pctg", ".0f"),
    ],
    "allocations": [
        RANK,
        Column("device", "device"),
        Column("phase", "phase"),
        Column("allocations", "allocations"),
        _mb("MB", "allocated(bytes)"),
        Column("releases", "releases"),
        _mb("MB", "released(bytes)"),
        _mb("peak MB", "peak(bytes)"),
    ],
    "peaks": [
        RANK,
        Column("device", "device"),
        _mb("MB", "peak(bytes)"),
        _mb("reserved MB", "reserved(bytes)"),
        Column("step", "step"),
        Column("phase", "phase"),
        Column("recorded %", "recorded_pctg", ".0f"),
    ],
    "held": [
        RANK,
        Column("device", "device"),
        NAME,
        INNERMOST,
        Column("phase", "phase"),
        Column("count", "count"),
        _mb("MB", "bytes"),
        Column("share %", "share_pctg", ".1f"),
    ],
    "path": [
        RANK,
        Column("of", "step"),
        Column("kind", "kind"),
        _ms("ms", "time(us)"),
        Column("share %", "share_pctg", ".1f"),
    ],
    "path_operators": [
        RANK,
        ON_PATH,
        LAUNCHER,
        Column("runs", "count"),
        _ms("ms", "time(us)"),
        Column("share %", "share_pctg", ".1f"),
        _ms("without ms", "without(us)"),
        Column("gain %", "gain_pctg", ".1f"),
    ],
    "queue": [
        RANK,
        Column("device", "device"),
        Column("stream", "stream"),
        Column("launches", "launches"),
        Column("mean", "mean_length", ".1f"),
        Column("max", "max_length"),
        Column("empty %", "empty_time_pctg", ".1f"),
        Column("starved %", "starved_time_pctg", ".1f"),
        _ms("at most ms", "longest_starved(us)"),
        Column("full %", "full_time_pctg", ".1f"),
    ],
    "bandwidth": [
        RANK,
        Column("device", "device"),
        Column("kind", "kind"),
        _ms("ms", "time(us)"),
        Column("mean", "mean(GB/s)", ".2f"),
        Column("max", "max(GB/s)", ".2f"),
    ],
    "annotations": [
        RANK,
        NAME,
        Column("count", "cpu count"),
        _ms("CPU ms", "cpu sum (us)"),
        _ms("mean", "cpu mean (us)"),
        _ms("device ms", "gpu sum (us)"),
        _ms("mean", "gpu mean (us)"),
    ],
    "stragglers": [
        RANK,
        Column("steps", "steps"),
        _ms("step ms", "step(us)"),
        _ms("own work ms", "own_work(us)"),
        _ms("communication ms", "communication(us)"),
        _ms("behind ms", "behind(us)"),
    ],
}


def as_text(found: dict[str, list[Row]], findings: list[Finding], several: bool, width: int | None) -> str:
    """Return one table below the other, and the findings; tables without a row are left out.

    Args:
        found: the rows of the tables, by name.
        findings: what costs time.
        several: whether the rows are of several ranks.
        width: the columns of the terminal; None without a terminal.
    """
    texts = [_titled_table(name, found[name], several, width) for name in TITLES if found.get(name)]
    costs = [_costs(findings, width)] if findings else []
    return "\n\n".join(filter(None, texts + costs)) or filled(nothing(next(iter(found), "")))


def nothing(table: str) -> str:
    """Return what is said in the place of a table without rows."""
    return NOTHING_OF.get(table, NOTHING)


def _titled_table(name: str, rows: list[Row], several: bool, width: int | None) -> str:
    """Return a table with its title; empty if no row says anything."""
    columns = [column for column in COLUMNS[name] if any(row.get(column.key) not in (None, 0.0) for row in rows)]
    columns = [column for column in columns if column is not RANK]
    if all(column.key in LABELS for column in columns):
        return ""
    columns = [RANK] * several + columns
    shown = _of_each_rank(rows)
    body = [[_cell(row.get(column.key), column) for column in columns] for row in shown]
    if width is not None:
        _shorten_names(body, columns, width)
    headers = [column.header for column in columns]
    right = [number for number, column in enumerate(columns) if column.format]
    more = f"\n... and {len(rows) - len(shown)} more; --json has all" if len(rows) > len(shown) else ""
    return f"{TITLES[name]}\n\n{plain_table(headers, body, right)}{more}"


def _of_each_rank(rows: list[Row]) -> list[Row]:
    """Return the first rows of each rank, as many of one as of another."""
    by_rank: dict[Any, list[Row]] = {}
    for row in rows:
        by_rank.setdefault(row.get("rank"), []).append(row)
    most = max(MIN_ROWS, MAX_ROWS // max(len(by_rank), 1))
    return [row for each in by_rank.values() for row in each[:most]]


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if column.format:
        return format(value / column.per, column.format)
    return short(str(value)) if column in (KERNEL, ON_PATH) else str(value)


def _shorten_names(body: list[list[str]], columns: list[Column], width: int) -> None:
    """Cut names so that the table fits the terminal beside the figures."""
    widths = [max(len(head.header), *map(len, cells)) for head, *cells in zip(columns, *body, strict=True)]
    for number, column in enumerate(columns):
        if column in SHORTENED:
            room = max(width - sum(widths) + widths[number] - 2 * (len(columns) - 1), MIN_NAME)
            for row in body:
                if len(row[number]) > room:
                    row[number] = f"{row[number][: room - 1]}…"
            widths[number] = min(widths[number], room)


def short(name: str) -> str:
    """Return a kernel's name without its types, but with the function that it applies: the rest takes pages."""
    if name.startswith(("Mem", "enumerate(")):
        return name
    functors = re.findall(r"\w*(?:[Ff]unctor|_op)\w*", name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    plain = re.split(r"[<(]", plain)[0]
    return f"{plain}<{functors[-1]}>" if functors and functors[-1] not in plain else plain or name


def _costs(findings: list[Finding], width: int | None) -> str:
    shares = ["" if finding.share is None else f"{finding.share:.0%}" for finding in findings]
    lines = [f"{share:>4}  {finding}" for share, finding in zip(shares, findings, strict=True)]
    if width:
        lines = [line for each in lines for line in textwrap.wrap(each, width, subsequent_indent=" " * 6)]
    return "\n".join(["What it costs, of the whole time", "", *lines])


def trace_rows(traces: Traces) -> list[Row]:
    """Return a row for each trace that was read."""
    return [
        {"rank": rank, "file": str(trace.path), "events": len(trace.events), "damage": list(trace.damage)}
        for rank, trace in traces.items()
    ]
