"""Draws traces, or what changed from one run to another, as one HTML file, which loads nothing."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape

import numpy as np

from workshop.pages.lanes import KINDS, Lanes, lanes
from workshop.pages.template import bar, fill, items, keys, paragraphs, quiet, section, table
from workshop.probe.phases import TRACED
from workshop.traces.breakdown import Row
from workshop.traces.comparison import TABLES, RunDifference, TimeChange
from workshop.traces.comparison_text import milliseconds, sentences, short
from workshop.traces.tables import TextTable, text_table
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import all_clear

BARS = {
    "temporal": (
        "The time of each device",
        {
            "compute": ("compute_time(us)", "var(--computation)"),
            "other": ("non_compute_time(us)", "var(--communication)"),
            "idle": ("idle_time(us)", "var(--rest)"),
        },
    ),
    "steps": (
        "What the thread that trains does in each step",
        {str(phase): (f"{phase}(us)", phase.colour) for phase in TRACED},
    ),
}
"""The title of each chart and its parts, with the key of each in the rows and its colour, by the name of the table."""

TIMELINE = """\
<p class="keys" id="keys"></p>
<p class="quiet">Wheel, two fingers or + and &minus; to zoom, drag or arrow keys to move, Esc for all of it.</p>
<canvas id="timeline" tabindex="0" aria-label="Timeline of threads and streams"></canvas>
<p id="details" aria-live="polite">&nbsp;</p>"""


def page(traces: Traces, tables: dict[str, list[Row]], findings: list[tuple[float | None, str]]) -> str:
    """Return a page that shows traces, the tables of their analyses by name, and what costs time: shares, sentences."""
    names = ", ".join(sorted({trace.path.name for trace in traces.values()})[:3])
    title = f"{len(traces)} trace{'s' * (len(traces) != 1)}: {names}"
    costs = [f"{'' if share is None else f'<b>{share:.0%}</b> '}{escape(sentence)}" for share, sentence in findings]
    begins = {rank: int(trace.events.ts.min()) if len(trace.events) else 0 for rank, trace in traces.items()}
    rows = [(row, begins[rank]) for rank, trace in traces.items() for row in lanes(rank, trace)]
    several = len(traces) > 1
    found = section("What it costs, of the whole time", items(costs or [all_clear(traces)]))
    above = [paragraphs(traces.notes), found, *_charts(tables, several)]
    return _with_timeline(title, above, rows, _tables(tables, several))


def difference_page(before: Traces, after: Traces, difference: RunDifference) -> str:
    """Return a page with sentences, the phases of a mean step, tables of changes, and both timelines."""
    title = f"{' → '.join(_names(before, after))}: what changed"
    findings = section("What changed", items(map(escape, sentences(difference))))
    above = [findings, _phases(difference), *_changes(difference)]
    return _with_timeline(title, above, _rows_of_both(before, after, difference))


def _with_timeline(title: str, above: Iterable[str], rows: list[tuple[Lanes, int]], below: Iterable[str] = ()) -> str:
    """Return a page with a timeline of rows, each with its begin in ns, as clocks may differ."""
    body = [*above, section("Timeline", TIMELINE), *below]
    return fill(title, body, "workshop trace", "timeline.js", timeline(rows))


def _charts(tables: dict[str, list[Row]], several: bool) -> Iterable[str]:
    for name, (title, parts) in BARS.items():
        if rows := tables.get(name):
            bars = "".join(_bar(row, parts, several) for row in rows[:24])
            yield section(title, keys({part: colour for part, (_, colour) in parts.items()}) + bars)


def _tables(tables: dict[str, list[Row]], several: bool) -> Iterable[str]:
    """Yield the tables that the terminal shows; `several` says whether they are of several ranks."""
    for name, rows in tables.items():
        if rows and (found := text_table(name, rows, several)):
            words = [at for at, column in enumerate(found.columns) if not column.unit]
            header = [escape(column.heading) for column in found.columns]
            more = quiet(f"{found.left_out} more are in --json.") if found.left_out else ""
            yield section(found.title, table(header, (_row_of(found, row) for row in found.rows), words=words) + more)


def _row_of(found: TextTable, row: list[str]) -> str:
    cells = []
    for column, cell in zip(found.columns, row, strict=True):
        kind = "" if column.unit else ' class="word name"' if column.is_name else ' class="word"'
        cells.append(f"<td{kind}>{escape(cell)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _bar(row: Row, parts: dict[str, tuple[str, str]], several: bool) -> str:
    whole = sum(row[key] for key, _ in parts.values()) or 1.0
    label = f"rank {row['rank']}, " * several + (f"step {row['step']}" if "step" in row else f"device {row['device']}")
    drawn = [
        (colour, row[key] / whole, f"{part}: {row[key] / 1000:.3f} ms, {row[key] / whole:.1%}")
        for part, (key, colour) in parts.items()
    ]
    return bar(label, drawn, f"{whole / 1000:.1f} ms")


def timeline(rows: list[tuple[Lanes, int]], most: int = 200_000) -> Row:
    """Return the longest events of all rows, as the script of the page reads them, with times since a begin in ns.

    Of more events than `most`, the number of those that are left out is named.
    """
    durations = np.concatenate([row.dur for row, _ in rows] or [np.empty(0, np.int64)])
    kept = np.zeros(len(durations), bool)
    kept[np.argsort(-durations, kind="stable")[:most]] = True
    of_rows = np.split(kept, np.cumsum([len(row.dur) for row, _ in rows])[:-1]) if rows else []
    shown = [_row(row.only(here), begin) for (row, begin), here in zip(rows, of_rows, strict=True) if here.any()]
    return {"kinds": KINDS, "rows": shown, "leftOut": int(len(kept) - kept.sum())}


def _row(row: Lanes, begin: int) -> Row:
    """Return a row as the script of the page reads it, with times in µs since the begin."""
    known: dict[int, int] = {}
    numbers = [known.setdefault(name, len(known)) for name in row.name.tolist()]
    return {
        "label": row.label,
        "names": [row.names[name] for name in known],
        "name": numbers,
        "kind": row.kind.tolist(),
        "lane": row.lane.tolist(),
        "start": [time / 1000 for time in (row.ts - begin).tolist()],
        "duration": [time / 1000 for time in row.dur.tolist()],
    }


# What changed from one run to another


def _names(*runs: Traces) -> list[str]:
    """Return the names of the files, or of their folders if the files have the same name, or are several."""
    paths = [next(iter(traces.values())).path for traces in runs]
    by_folder = max(map(len, runs)) > 1 or len({path.name for path in paths}) == 1
    return [path.absolute().parent.name if by_folder else path.name for path in paths]


def _phases(difference: RunDifference) -> str:
    """Return a bar for a mean step before, and one after, whose lengths compare."""
    changes = {change.name: change for change in difference.tables["phases"]}
    phases = [phase for phase in TRACED if phase in changes]
    longest = max(difference.step.before_ns, difference.step.after_ns) or 1.0
    bars = keys({phase: phase.colour for phase in phases})
    for side in ("before", "after"):
        times = {phase: getattr(changes[phase], f"{side}_ns") for phase in phases}
        parts = [(phase.colour, ns / longest, f"{phase}: {milliseconds(ns)} ms") for phase, ns in times.items()]
        bars += bar(side, parts, f"{milliseconds(sum(times.values()))} ms")
    return section("A mean step" if difference.by_step else "The whole recordings", bars)


def _changes(difference: RunDifference) -> Iterator[str]:
    for name, changes in difference.tables.items():
        if changes:
            shown = changes[:20]
            more = len(changes) - len(shown)
            note = quiet(f"{more} more changed less, or within noise.") if more > 0 else ""
            header = ("name", "before ms", "after ms", "change ms", "± ms", "")
            yield section(TABLES[name], table(header, map(_change, shown), "changes") + note)


def _change(change: TimeChange) -> str:
    cells = [f"{ns / 1e6:.3f}" for ns in (change.before_ns, change.after_ns)] + [f"{change.difference_ns / 1e6:+.3f}"]
    cells += ["" if math.isnan(change.margin_ns) else f"{change.margin_ns / 1e6:.3f}", change.remark]
    return (
        f'<tr{" class=quiet" * change.is_noise}><td title="{escape(change.name)}">{escape(short(change.name))}</td>'
        f"{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    )


def _rows_of_both(before: Traces, after: Traces, difference: RunDifference) -> list[tuple[Lanes, int]]:
    """Return the rows of both runs, which begin with the first step that is compared."""
    runs = {"before": (before, difference.before.begins), "after": (after, difference.after.begins)}
    return [
        (replace(row.only(row.ts >= begin), label=f"{side}, {row.label}"), begin)
        for side, (traces, begins) in runs.items()
        for rank, begin in begins.items()
        for row in lanes(rank, traces[rank])
    ]
