"""What `workshop trace` prints: the findings and tables of traces, and with `--diff` what changed, as text and JSON."""

import math
from collections.abc import Sequence

from workshop.cli.output import filled
from workshop.cli.terminal_tables import plain_table
from workshop.parts import taught_in
from workshop.terminal import cut, wrapped
from workshop.traces import comparison
from workshop.traces.breakdown import Row
from workshop.traces.comparison import RunDifference, TimeChange
from workshop.traces.comparison_text import sentences
from workshop.traces.tables import MAX_ROWS, NOTHING, TABLES, short, text_table
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import TraceFinding, all_clear

MORE_TABLES = "More: --tables NAME prints another table, --tables all prints all of them, and --help lists them."


def findings_text(traces: Traces, findings: list[TraceFinding], width: int | None) -> str:
    """Return what costs time, and the tables that show what costs most; `width` is None without a terminal."""
    names = [*dict.fromkeys(finding.table for finding in findings)][:2] or ["temporal", "operators"]
    shown = tables_text({name: TABLES[name].rows(traces) for name in names}, len(traces) > 1, width)
    lines = []
    for share, sentence in with_lessons(findings):
        begin = f"{'' if share is None else f'{share:.0%}':>4}  "
        lines.append(wrapped(sentence, width, begin, " " * len(begin)))
    words = "\n".join(["What it costs, of the whole time", "", *lines]) if lines else all_clear(traces)
    return f"{words}\n\n{shown}\n\n{filled(MORE_TABLES)}"


def with_lessons(findings: list[TraceFinding]) -> list[tuple[float | None, str]]:
    """Return the share and the sentence of each finding, with the part that teaches what to do about it."""
    taught = ((finding, taught_in(finding.topic)) for finding in findings)
    return [(each.share, f"{each.text} ({lesson})" if lesson else each.text) for each, lesson in taught]


def finding_row(finding: TraceFinding) -> Row:
    """Return a finding for JSON."""
    return {"share": finding.share, "text": finding.text, "part": taught_in(finding.topic)}


def trace_rows(traces: Traces) -> list[Row]:
    """Return a row for each trace that was read."""
    return [
        {"rank": rank, "file": str(trace.path), "events": len(trace.events), "damage": list(trace.damage)}
        for rank, trace in traces.items()
    ]


def tables_text(found: dict[str, list[Row]], several: bool, width: int | None) -> str:
    """Return the tables one below the other, without the empty ones; `several` is whether of several ranks."""
    shown = [text_table(name, rows, several) for name, rows in found.items() if rows]
    texts = []
    for table in filter(None, shown):
        names = [number for number, column in enumerate(table.columns) if column.is_name]
        numbers = [number for number, column in enumerate(table.columns) if column.unit]
        headings = [column.heading for column in table.columns]
        texts.append(_titled(table.title, headings, table.rows, names, numbers, table.left_out, width))
    return "\n\n".join(texts) or filled(TABLES[next(iter(found))].without_rows)


def difference_fields(
    before: Traces, after: Traces, found: RunDifference, names: list[str] | None
) -> dict[str, object]:
    """Return the fields of the JSON of what changed; if tables are named, only those."""
    tables = {name: [change.row() for change in found.tables[name]] for name in names or comparison.TABLES}
    seen = None if math.isnan(found.seen_ns) else found.seen_ns / 1000
    steps = {"before": len(found.before.duration), "after": len(found.after.duration)}
    step = {"by_step": found.by_step, "steps": steps, "step": found.step.row() | {"seen(us)": seen}}
    files = {"before": trace_rows(before), "after": trace_rows(after)}
    return {**files, "sentences": sentences(found), **step, **tables}


def difference_text(found: RunDifference, names: list[str] | None, width: int | None) -> str:
    """Return tables of what changed one below the other; without names, the sentences and the table of the phases."""
    tables = [_changes(name, found.tables[name], width) for name in names or ["phases"]]
    if not names:
        tables = ["\n".join(map(filled, sentences(found))), *tables, filled(MORE_TABLES)]
    return "\n\n".join(filter(None, tables)) or filled(NOTHING)


def _changes(name: str, changes: Sequence[TimeChange], width: int | None) -> str:
    """Return a table with its title; empty without a row."""
    title = comparison.TABLES[name]
    if not changes:
        return ""
    if all(change.is_noise for change in changes):
        return f"{title}\n\nnothing but noise; --json has all"
    shown = changes[:MAX_ROWS]
    rows = [[short(each.name) if name == "kernels" else each.name, *_figures(each)] for each in shown]
    headings = ["name", "before ms", "after ms", "change ms", "95 % interval", ""]
    return _titled(title, headings, rows, [0], range(1, 5), len(changes) - len(shown), width)


def _figures(change: TimeChange) -> list[str]:
    low, high = change.difference_ns - change.margin_ns, change.difference_ns + change.margin_ns
    interval = "" if math.isnan(change.margin_ns) else f"{low / 1e6:+.3f} to {high / 1e6:+.3f}"
    times = f"{change.before_ns / 1e6:.3f}", f"{change.after_ns / 1e6:.3f}", f"{change.difference_ns / 1e6:+.3f}"
    return [*times, interval, change.remark]


def _titled(
    title: str,
    headings: list[str],
    rows: list[list[str]],
    names: Sequence[int],
    numbers: Sequence[int],
    left_out: int,
    width: int | None,
) -> str:
    """Return a table with its title; its names are cut so that it fits the terminal beside the figures.

    `names` and `numbers` are the columns of either, and `left_out` is the number of rows that are not shown.
    """
    widths = [max(map(len, cells)) for cells in zip(headings, *rows, strict=True)]
    for at in names if width is not None else ():
        widest = max((width or 0) - sum(widths) + widths[at] - 2 * (len(widths) - 1), 12)  # however narrow it is
        for row in rows:
            row[at] = cut(row[at], widest)
        widths[at] = min(widths[at], widest)
    more = f"\n... and {left_out} more; --json has all" if left_out else ""
    return f"{title}\n\n{plain_table(headings, rows, numbers)}{more}"
