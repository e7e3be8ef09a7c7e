"""The findings and tables of `workshop trace` as text for a terminal."""

from dataclasses import replace

from workshop.cli.output import filled, plain_table
from workshop.parts import taught_in
from workshop.terminal import wrapped
from workshop.traces.breakdown import Row
from workshop.traces.table_text import Column, text_table
from workshop.traces.tables import TABLES
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import TraceFinding, all_clear

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

MIN_NAME = 12
"""The smallest width of a cut name, however narrow the terminal is."""


def findings_text(traces: Traces, findings: list[TraceFinding], width: int | None) -> str:
    """Return what costs time, and the tables that show what costs most; `width` is None without a terminal."""
    names = [*dict.fromkeys(each.table for each in findings)][:MAX_TABLES] or WITHOUT_FINDINGS
    shown = tables_text({name: TABLES[name](traces) for name in names}, len(traces) > 1, width)
    lines = []
    for each in with_lessons(findings):
        share = f"{'' if each.share is None else f'{each.share:.0%}':>4}  "
        lines.append(wrapped(str(each), width, share, " " * len(share)))
    words = "\n".join(["What it costs, of the whole time", "", *lines]) if lines else all_clear(traces)
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


def _titled_table(name: str, rows: list[Row], several: bool, width: int | None) -> str:
    """Return a table with its title; empty if it has only labels."""
    table = text_table(name, rows, several)
    if table is None:
        return ""
    if width is not None:
        _shorten_names(table.rows, table.columns, width)
    headers = [column.header for column in table.columns]
    right = [number for number, column in enumerate(table.columns) if column.is_number]
    more = f"\n... and {table.left_out} more; --json has all" if table.left_out else ""
    return f"{table.title}\n\n{plain_table(headers, table.rows, right)}{more}"


def _shorten_names(body: list[list[str]], columns: list[Column], width: int) -> None:
    """Cut names so that the table fits the terminal beside the figures."""
    widths = [max(len(head.header), *map(len, cells)) for head, *cells in zip(columns, *body, strict=True)]
    for number, column in enumerate(columns):
        if column.is_name:
            room = max(width - sum(widths) + widths[number] - 2 * (len(columns) - 1), MIN_NAME)
            for row in body:
                if len(row[number]) > room:
                    row[number] = f"{row[number][: room - 1]}…"
            widths[number] = min(widths[number], room)


def trace_rows(traces: Traces) -> list[Row]:
    """Return a row for each trace that was read."""
    return [
        {"rank": rank, "file": str(trace.path), "events": len(trace.events), "damage": list(trace.damage)}
        for rank, trace in traces.items()
    ]
