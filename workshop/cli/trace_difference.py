"""What `workshop trace --diff` prints: sentences and tables, JSON, CSV, or a page."""

import math
from collections.abc import Sequence
from pathlib import Path

from workshop.cli.output import filled, plain_table, print_csv, print_json, say, write_file
from workshop.cli.trace_files import read_traces
from workshop.cli.trace_tables import MAX_ROWS, MIN_NAME, NOTHING, short, trace_rows
from workshop.profiles.traces.comparison.difference import Change, Difference, compare
from workshop.profiles.traces.comparison.sentences import TITLES, sentences
from workshop.profiles.traces.comparison.step_times import TABLES

HEADERS = ("name", "before ms", "after ms", "change ms", "95 % interval", "")


def print_difference(
    before: Path, after: Path, only: str | None, as_json: bool, as_csv: bool, html: Path | None, width: int | None
) -> None:
    """Compare the traces of two runs, and print what changed, or write it to a page.

    Args:
        before: a trace, or a folder with the traces of all ranks.
        after: the same of the other run.
        only: the one table to print; None for all.
        as_json: whether to print JSON.
        as_csv: whether to print the table as CSV.
        html: where to write a page.
        width: the columns of the terminal; None without a terminal.
    """
    traces = read_traces([before]), read_traces([after])
    found = compare(*traces)
    if html:
        from workshop.pages.trace_difference_page import page

        write_file(html, page(*traces, found))
        print(f"{html} shows what changed. Open it in a browser.")
    elif as_csv and only:
        print_csv([change.row() for change in found.tables[only]], list(found.step.row()))
    elif as_json:
        print_json(before=trace_rows(traces[0]), after=trace_rows(traces[1]), **_fields(found, only))
    else:
        print(as_text(found, only, width))
    for note in [*traces[0].notes, *traces[1].notes]:
        say(note)


def _fields(found: Difference, only: str | None) -> dict[str, object]:
    tables = {name: [change.row() for change in found.tables[name]] for name in TABLES if only in (None, name)}
    seen = None if math.isnan(found.seen_ns) else found.seen_ns / 1000
    steps = {"before": len(found.before.duration), "after": len(found.after.duration)}
    step = {"by_step": found.by_step, "steps": steps, "step": found.step.row() | {"seen(us)": seen}}
    return {"sentences": sentences(found), **step, **tables}


def as_text(found: Difference, only: str | None, width: int | None) -> str:
    """Return the sentences, and one table below the other; tables without a row are left out."""
    words = "" if only else "\n".join(filled(sentence) for sentence in sentences(found))
    tables = [_table(TITLES[name], found.tables[name], width) for name in TABLES if only in (None, name)]
    return "\n\n".join(filter(None, [words, *tables])) or filled(NOTHING)


def _table(title: str, changes: Sequence[Change], width: int | None) -> str:
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


def _figures(change: Change) -> list[str]:
    times = [f"{ns / 1e6:.3f}" for ns in (change.before_ns, change.after_ns)]
    if math.isnan(change.margin_ns):
        interval = ""
    else:
        low, high = change.difference_ns - change.margin_ns, change.difference_ns + change.margin_ns
        interval = f"{low / 1e6:+.3f} to {high / 1e6:+.3f}"
    return [*times, f"{change.difference_ns / 1e6:+.3f}", interval, change.remark]
