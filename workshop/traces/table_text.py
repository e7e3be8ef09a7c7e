"""The tables of traces as a person reads them, on a terminal and a page: their columns, and how values are written."""

import re
from typing import Any, NamedTuple

from workshop.probe.phases import TRACED
from workshop.traces.breakdown import Row

MAX_ROWS = 10
"""The number of rows that a table shows; JSON and CSV have all."""

MIN_ROWS = 3
"""The smallest number of rows that are shown of each rank, if there are several."""

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
    """A column of a table."""

    header: str
    key: str
    unit: str

    @property
    def is_number(self) -> bool:
        """Whether the column has numbers, which are aligned to the right."""
        return self.unit in UNITS

    @property
    def is_name(self) -> bool:
        """Whether the column has names, which may be long."""
        return self.key in SHORTENED

    @property
    def is_kernel(self) -> bool:
        """Whether the column has names of kernels."""
        return self.header in ("kernel", "on the path")


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
    columns = [each for each in _columns(name) if any(row.get(each.key) not in (None, 0.0) for row in rows)]
    if all(column.key in LABELS for column in columns):
        return None
    columns = [Column("rank", "rank", "")] * several + columns
    shown = _of_each_rank(rows)
    body = [[_cell(row.get(column.key), column) for column in columns] for row in shown]
    return TextTable(TITLES[name], columns, body, len(rows) - len(shown))


def _columns(name: str) -> list[Column]:
    columns = []
    for text in COLUMNS[name].split(", "):
        header, _, key = text.partition(": ")
        key, _, unit = (key or header).partition(" in ")
        columns.append(Column(header, key, unit or header.split()[-1]))
    return columns


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
    if column.is_number:
        form, divisor = UNITS[column.unit]
        return format(value / divisor, form)
    return short(str(value)) if column.is_kernel else str(value)


def short(name: str) -> str:
    """Return a kernel's name without its types, which fill pages, but with the function that it applies."""
    if name.startswith(("Mem", "enumerate(")):
        return name
    functors = re.findall(r"\w*(?:[Ff]unctor|_op)\w*", name)
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("at::native::", "")
    plain = re.split(r"[<(]", plain)[0]
    return f"{plain}<{functors[-1]}>" if functors and functors[-1] not in plain else plain or name
