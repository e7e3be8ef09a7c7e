"""The page: one HTML file, for which nothing is loaded from anywhere."""

from collections.abc import Iterable
from html import escape

from workshop import html_page
from workshop.probe.phases import Phase
from workshop.profiles.traces.breakdown import Row
from workshop.profiles.traces.findings import Finding
from workshop.profiles.traces.ranks import Traces
from workshop.timeline.lanes import KINDS, Lanes, lanes

MOST_EVENTS = 200_000
"""The number of events in one page: the longest ones. The others are counted."""

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
        {f"{phase}(us)": phase.colour for phase in Phase},
    ),
}
"""The charts: of each, the table, the title, and the columns with their colours."""

MOST_BARS = 24


def page(traces: Traces, tables: dict[str, list[Row]], findings: list[Finding]) -> str:
    """Return a page that shows traces.

    Args:
        traces: at least one.
        tables: the rows of the analyses, by name.
        findings: what costs time.
    """
    title = f"{len(traces)} trace{'s' * (len(traces) != 1)}: " + ", ".join(
        sorted({trace.path.name for trace in traces.values()})[:3]
    )
    costs = "".join(_finding(each) for each in findings) or "<li>Nothing that costs much.</li>"
    charts = "".join(_charts(tables))
    return html_page.fill(__package__, _timeline(traces), title=title, findings=costs, charts=charts)


def _finding(finding: Finding) -> str:
    return f"<li><b>{finding.share:.0%}</b> {escape(str(finding))}</li>"


def _charts(tables: dict[str, list[Row]]) -> Iterable[str]:
    for name, (title, columns) in BARS.items():
        rows = tables.get(name, [])
        if rows:
            bars = "".join(_bar(row, columns) for row in rows[:MOST_BARS])
            keys = "".join(
                f'<span><i style="background:{colour}"></i>{escape(_plain(column))}</span>'
                for column, colour in columns.items()
            )
            yield f'<section><h2>{title}</h2><p class="keys">{keys}</p>{bars}</section>'
    kinds = tables.get("types", [])
    if kinds:
        table = _table(kinds, ("rank", "kernel_type", "sum", "percentage"))
        yield f"<section><h2>Time by kind of kernel</h2>{table}</section>"


def _bar(row: Row, columns: dict[str, str]) -> str:
    whole = sum(row[column] for column in columns) or 1.0
    label = f"rank {row['rank']}, " + (f"step {row['step']}" if "step" in row else f"device {row['device']}")
    parts = "".join(
        f'<i style="background:{colour};width:{100 * row[column] / whole:.3f}%" '
        f'title="{escape(_plain(column))}: {row[column] / 1000:.3f} ms, {row[column] / whole:.1%}"></i>'
        for column, colour in columns.items()
    )
    return f'<div class="bar"><span>{escape(label)}</span><div>{parts}</div><em>{whole / 1000:.1f} ms</em></div>'


def _table(rows: list[Row], columns: tuple[str, ...]) -> str:
    head = "".join(f"<th>{column}</th>" for column in ("rank", "kind", "ms", "%"))
    lines = [
        f"<tr><td>{escape(str(row[columns[0]]))}</td><td>{escape(row[columns[1]].lower())}</td>"
        f"<td>{row[columns[2]] / 1000:.3f}</td><td>{row[columns[3]] or 0:.1f}</td></tr>"
        for row in rows
    ]
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _plain(column: str) -> str:
    return column.removesuffix("(us)").replace("_time", "").replace("non_compute", "other")


def _timeline(traces: Traces) -> Row:
    """Rows of lanes. Times in µs from the first event of each trace: their clocks may differ."""
    rows, left_out = [], 0
    for rank, trace in traces.items():
        begin = int(trace.events.ts.min()) if len(trace.events) else 0
        for row in lanes(rank, trace):
            kept = row.longest(MOST_EVENTS // max(4 * len(traces), 1))
            left_out += len(row.ts) - len(kept.ts)
            rows.append(_row(kept, begin, trace.names))
    return {"kinds": KINDS, "rows": rows, "leftOut": left_out}


def _row(row: Lanes, begin: int, names: list[str]) -> Row:
    known: dict[int, int] = {}
    numbers = [known.setdefault(name, len(known)) for name in row.name.tolist()]
    return {
        "label": row.label,
        "names": [names[name] for name in known],
        "name": numbers,
        "kind": row.kind.tolist(),
        "lane": row.lane.tolist(),
        "start": [time / 1000 for time in (row.ts - begin).tolist()],
        "duration": [time / 1000 for time in row.dur.tolist()],
    }
