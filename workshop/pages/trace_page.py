"""Draws traces as one HTML file, which loads nothing."""

from collections.abc import Iterable
from html import escape

import numpy as np

from workshop.pages.lanes import KINDS, Lanes, lanes
from workshop.pages.template import bar, fill, keys, section, table
from workshop.probe.phases import TRACED
from workshop.traces.breakdown import Row
from workshop.traces.tables import TextTable, text_table
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import all_clear

MAX_EVENTS = 200_000
"""Events, at most, that a page shows, which are the longest ones; the number of the others is named."""

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
    costs = "".join(
        f"<li>{'' if share is None else f'<b>{share:.0%}</b> '}{escape(sentence)}</li>" for share, sentence in findings
    )
    costs = section(
        "What it costs, of the whole time", f'<ol id="findings">{costs or f"<li>{all_clear(traces)}</li>"}</ol>'
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in traces.notes)
    begins = {rank: int(trace.events.ts.min()) if len(trace.events) else 0 for rank, trace in traces.items()}
    rows = [(row, begins[rank]) for rank, trace in traces.items() for row in lanes(rank, trace)]
    several = len(traces) > 1
    body = "".join([notes, costs, *_charts(tables, several)])
    return with_timeline(title, body, rows, "".join(_tables(tables, several)))


def with_timeline(title: str, body: str, rows: list[tuple[Lanes, int]], below: str = "") -> str:
    """Return a page with a timeline of rows, each with its begin in ns, as clocks may differ, and what is below it."""
    body += section("Timeline", TIMELINE) + below
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
            more = f'<p class="quiet">{found.left_out} more are in --json.</p>' if found.left_out else ""
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


def timeline(rows: list[tuple[Lanes, int]]) -> Row:
    """Return the longest events of all rows, as the script of the page reads them, with times since a begin in ns."""
    durations = np.concatenate([row.dur for row, _ in rows] or [np.empty(0, np.int64)])
    kept = np.zeros(len(durations), bool)
    kept[np.argsort(-durations, kind="stable")[:MAX_EVENTS]] = True
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
