"""What `workshop trace --diff` prints: sentences or tables, or JSON."""

import math
from collections.abc import Sequence

from workshop.cli.output import filled, plain_table
from workshop.cli.trace_text import MIN_NAME, MORE_TABLES, NOTHING, trace_rows
from workshop.traces.comparison.change_text import TITLES, sentences
from workshop.traces.comparison.difference import RunDifference, TimeChange
from workshop.traces.comparison.step_times import TABLES
from workshop.traces.table_text import MAX_ROWS, short
from workshop.traces.trace_files import Traces

HEADERS = ("name", "before ms", "after ms", "change ms", "95 % interval", "")


def fields(before: Traces, after: Traces, found: RunDifference, names: list[str] | None) -> dict[str, object]:
    """Return the fields of the JSON; if tables are named, only those."""
    tables = {name: [change.row() for change in found.tables[name]] for name in names or TABLES}
    seen = None if math.isnan(found.seen_ns) else found.seen_ns / 1000
    steps = {"before": len(found.before.duration), "after": len(found.after.duration)}
    step = {"by_step": found.by_step, "steps": steps, "step": found.step.row() | {"seen(us)": seen}}
    files = {"before": trace_rows(before), "after": trace_rows(after)}
    return {**files, "sentences": sentences(found), **step, **tables}


def as_text(found: RunDifference, names: list[str] | None, width: int | None) -> str:
    """Return some tables one below the other; without names, the sentences and the table of the phases."""
    tables = [_table(TITLES[name], found.tables[name], width) for name in names or ["phases"]]
    if not names:
        tables = ["\n".join(map(filled, sentences(found))), *tables, filled(MORE_TABLES)]
    return "\n\n".join(filter(None, tables)) or filled(NOTHING)


def _table(title: str, changes: Sequence[TimeChange], width: int | None) -> str:
    """Return a table with its title; empty without a row."""
    if not changes:
        return ""
    if all(change.is_noise for change in changes):
        return f"{title}\n\nnothing but noise; --json has all"
    shown = changes[:MAX_ROWS]
    figures = [_figures(change) for change in shown]
    names = [short(change.name) if title == TITLES["kernels"] else change.name for change in shown]
    if width is not None:
        columns = zip(HEADERS[1:], *figures, strict=True)
        room = max(width - sum(2 + max(map(len, column)) for column in columns), MIN_NAME)
        names = [name if len(name) <= room else f"{name[: room - 1]}…" for name in names]
    rows = [[name, *row] for name, row in zip(names, figures, strict=True)]
    more = f"\n... and {len(changes) - len(shown)} more; --json has all" if len(changes) > len(shown) else ""
    return f"{title}\n\n{plain_table(HEADERS, rows, range(1, 5))}{more}"


def _figures(change: TimeChange) -> list[str]:
    low, high = change.difference_ns - change.margin_ns, change.difference_ns + change.margin_ns
    interval = "" if math.isnan(change.margin_ns) else f"{low / 1e6:+.3f} to {high / 1e6:+.3f}"
    times = f"{change.before_ns / 1e6:.3f}", f"{change.after_ns / 1e6:.3f}", f"{change.difference_ns / 1e6:+.3f}"
    return [*times, interval, change.remark]
