"""Draws what changed between two runs as one HTML file, which loads nothing: both timelines on one axis of time."""

import math
from collections.abc import Iterator
from dataclasses import replace
from html import escape

from workshop import html_page
from workshop.probe.phases import TRACED
from workshop.timeline.lanes import lanes
from workshop.timeline.page import timeline
from workshop.traces.breakdown import Row
from workshop.traces.comparison.difference import RunDifference, TimeChange
from workshop.traces.comparison.sentences import TITLES, milliseconds, sentences, short
from workshop.traces.trace_files import Traces

MAX_CHANGES = 20
"""The number of rows that a table shows."""

HEADERS = ("name", "before ms", "after ms", "change ms", "± ms", "")


def page(before: Traces, after: Traces, difference: RunDifference) -> str:
    """Return a page with sentences, the phases of a mean step, tables of changes, and both timelines."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(difference))
    title = f"{' → '.join(_names(before, after))}: what changed"
    charts = "".join([_phases(difference), *_tables(difference)])
    timeline = _timeline(before, after, difference)
    return html_page.fill(__package__, timeline, title=title, heading="What changed", findings=items, charts=charts)


def _names(*runs: Traces) -> list[str]:
    """Return the names of the files, or of their folders if the files have the same name, or are several."""
    paths = [next(iter(traces.values())).path for traces in runs]
    by_folder = max(map(len, runs)) > 1 or len({path.name for path in paths}) == 1
    return [path.absolute().parent.name if by_folder else path.name for path in paths]


def _phases(difference: RunDifference) -> str:
    """Return a bar for a mean step before, and one after, whose lengths compare."""
    changes = {change.name: change for change in difference.tables["phases"]}
    phases = [phase for phase in TRACED if phase in changes]
    keys = "".join(f'<span><i style="background:{phase.colour}"></i>{phase}</span>' for phase in phases)
    longest = max(difference.step.before_ns, difference.step.after_ns) or 1.0
    bars = ""
    for side in ("before", "after"):
        times = {phase: getattr(changes[phase], f"{side}_ns") for phase in phases}
        parts = "".join(
            f'<i style="background:{phase.colour};width:{100 * ns / longest:.3f}%" '
            f'title="{phase}: {milliseconds(ns)} ms"></i>'
            for phase, ns in times.items()
        )
        whole = milliseconds(sum(times.values()))
        bars += f'<div class="bar"><span>{side}</span><div>{parts}</div><em>{whole} ms</em></div>'
    heading = "A mean step" if difference.by_step else "The whole recordings"
    return f'<section><h2>{heading}</h2><p class="keys">{keys}</p>{bars}</section>'


def _tables(difference: RunDifference) -> Iterator[str]:
    for name, changes in difference.tables.items():
        if changes:
            head = "".join(f"<th>{header}</th>" for header in HEADERS)
            rows = "".join(map(_row, changes[:MAX_CHANGES]))
            more = len(changes) - MAX_CHANGES
            note = f'<p class="quiet">{more} more changed less, or within noise.</p>' if more > 0 else ""
            table = f'<div class="scrolled"><table class="changes"><tr>{head}</tr>{rows}</table></div>'
            yield f"<section><h2>{escape(TITLES[name])}</h2>{table}{note}</section>"


def _row(change: TimeChange) -> str:
    cells = [f"{ns / 1e6:.3f}" for ns in (change.before_ns, change.after_ns)] + [f"{change.difference_ns / 1e6:+.3f}"]
    cells += ["" if math.isnan(change.margin_ns) else f"{change.margin_ns / 1e6:.3f}", change.remark]
    return (
        f'<tr{" class=quiet" * change.is_noise}><td title="{escape(change.name)}">{escape(short(change.name))}</td>'
        f"{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    )


def _timeline(before: Traces, after: Traces, difference: RunDifference) -> Row:
    """Return the rows of both runs, with times in µs since the first step that is compared."""
    runs = {"before": (before, difference.before.begins), "after": (after, difference.after.begins)}
    return timeline(
        [
            (replace(row.only(row.ts >= begin), label=f"{side}, {row.label}"), begin)
            for side, (traces, begins) in runs.items()
            for rank, begin in begins.items()
            for row in lanes(rank, traces[rank])
        ]
    )
