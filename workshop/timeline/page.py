"""Draws traces as one HTML file, which loads nothing."""

from collections.abc import Iterable
from html import escape

import numpy as np

from workshop import html_page
from workshop.probe.phases import TRACED
from workshop.timeline.lanes import KINDS, Lanes, lanes
from workshop.traces.breakdown import Row
from workshop.traces.trace_files import Traces
from workshop.traces.trace_findings import TraceFinding

MAX_EVENTS = 200_000
"""The most events that a page shows, which are the longest ones; the number of the others is named."""

BARS = {
    "temporal": (
        "Where the time of each device goes",
        {
            "compute_time(us)": "var(--computation)",
            "non_compute_time(us)": "var(--communication)",
            "idle_time(us)": "var(--rest)",
        },
    ),
    "steps": (
        "What the thread that trains does in each step",
        {f"{phase}(us)": phase.colour for phase in TRACED},
    ),
}
"""The title of each chart, and the columns of its table with their colours, by the name of the table."""

MAX_BARS = 24

HEADING = "What it costs, of the whole time"


def page(traces: Traces, tables: dict[str, list[Row]], findings: list[TraceFinding]) -> str:
    """Return a page that shows traces, the tables of their analyses by name, and what costs time."""
    names = ", ".join(sorted({trace.path.name for trace in traces.values()})[:3])
    title = f"{len(traces)} trace{'s' * (len(traces) != 1)}: {names}"
    shares = ["" if finding.share is None else f"<b>{finding.share:.0%}</b> " for finding in findings]
    costs = "".join(f"<li>{share}{escape(str(each))}</li>" for share, each in zip(shares, findings, strict=True))
    costs = costs or "<li>Nothing that costs much.</li>"
    charts = "".join(_charts(tables))
    return html_page.fill(__package__, _timeline(traces), title=title, heading=HEADING, findings=costs, charts=charts)


def _charts(tables: dict[str, list[Row]]) -> Iterable[str]:
    for name, (title, columns) in BARS.items():
        rows = tables.get(name, [])
        if rows:
            bars = "".join(_bar(row, columns) for row in rows[:MAX_BARS])
            keys = "".join(
                f'<span><i style="background:{colour}"></i>{escape(_plain(column))}</span>'
                for column, colour in columns.items()
            )
            yield f'<section><h2>{title}</h2><p class="keys">{keys}</p>{bars}</section>'
    if kinds := tables.get("types"):
        head = "<th>rank</th><th>kind</th><th>ms</th><th>%</th>"
        lines = "".join(
            f"<tr><td>{escape(str(row['rank']))}</td><td>{escape(row['kernel_type'].lower())}</td>"
            f"<td>{row['sum'] / 1000:.3f}</td><td>{row['percentage'] or 0:.1f}</td></tr>"
            for row in kinds
        )
        yield f"<section><h2>Time by kind of kernel</h2><table><tr>{head}</tr>{lines}</table></section>"


def _bar(row: Row, columns: dict[str, str]) -> str:
    whole = sum(row[column] for column in columns) or 1.0
    label = f"rank {row['rank']}, " + (f"step {row['step']}" if "step" in row else f"device {row['device']}")
    parts = "".join(
        f'<i style="background:{colour};width:{100 * row[column] / whole:.3f}%" '
        f'title="{escape(_plain(column))}: {row[column] / 1000:.3f} ms, {row[column] / whole:.1%}"></i>'
        for column, colour in columns.items()
    )
    return f'<div class="bar"><span>{escape(label)}</span><div>{parts}</div><em>{whole / 1000:.1f} ms</em></div>'


def _plain(column: str) -> str:
    return column.removesuffix("(us)").replace("_time", "").replace("non_compute", "other")


def _timeline(traces: Traces) -> Row:
    """Return the rows of lanes, with times in µs since the first event of each trace, as their clocks may differ."""
    begins = {rank: int(trace.events.ts.min()) if len(trace.events) else 0 for rank, trace in traces.items()}
    return timeline([(row, begins[rank]) for rank, trace in traces.items() for row in lanes(rank, trace)])


def timeline(rows: list[tuple[Lanes, int]]) -> Row:
    """Return the longest events of all rows, as the script of the page reads them, with times since a begin in ns."""
    durations = np.concatenate([row.dur for row, _ in rows] or [np.empty(0, np.int64)])
    kept = np.zeros(len(durations), bool)
    kept[np.argsort(-durations, kind="stable")[:MAX_EVENTS]] = True
    of_rows = np.split(kept, np.cumsum([len(row.dur) for row, _ in rows])[:-1]) if rows else []
    shown = [
        timeline_row(row.only(here), begin) for (row, begin), here in zip(rows, of_rows, strict=True) if here.any()
    ]
    return {"kinds": KINDS, "rows": shown, "leftOut": int(len(kept) - kept.sum())}


def timeline_row(row: Lanes, begin: int) -> Row:
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
