"""Draws what changed between two runs as one HTML file, which loads nothing: both timelines on one axis of time."""

import math
from collections.abc import Iterator
from dataclasses import replace
from html import escape

from workshop.pages.lanes import Lanes, lanes
from workshop.pages.template import bar, keys, section, table
from workshop.pages.trace_page import with_timeline
from workshop.probe.phases import TRACED
from workshop.traces.comparison import TABLES, RunDifference, TimeChange
from workshop.traces.comparison_text import milliseconds, sentences, short
from workshop.traces.trace_files import Traces

HEADERS = ("name", "before ms", "after ms", "change ms", "± ms", "")


def page(before: Traces, after: Traces, difference: RunDifference) -> str:
    """Return a page with sentences, the phases of a mean step, tables of changes, and both timelines."""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(difference))
    title = f"{' → '.join(_names(before, after))}: what changed"
    findings = section("What changed", f'<ol id="findings">{items}</ol>')
    body = "".join([findings, _phases(difference), *_tables(difference)])
    return with_timeline(title, body, _rows(before, after, difference))


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


def _tables(difference: RunDifference) -> Iterator[str]:
    for name, changes in difference.tables.items():
        if changes:
            shown = changes[:20]
            more = len(changes) - len(shown)
            note = f'<p class="quiet">{more} more changed less, or within noise.</p>' if more > 0 else ""
            yield section(TABLES[name], table(HEADERS, map(_row, shown), "changes") + note)


def _row(change: TimeChange) -> str:
    cells = [f"{ns / 1e6:.3f}" for ns in (change.before_ns, change.after_ns)] + [f"{change.difference_ns / 1e6:+.3f}"]
    cells += ["" if math.isnan(change.margin_ns) else f"{change.margin_ns / 1e6:.3f}", change.remark]
    return (
        f'<tr{" class=quiet" * change.is_noise}><td title="{escape(change.name)}">{escape(short(change.name))}</td>'
        f"{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    )


def _rows(before: Traces, after: Traces, difference: RunDifference) -> list[tuple[Lanes, int]]:
    """Return the rows of both runs, which begin with the first step that is compared."""
    runs = {"before": (before, difference.before.begins), "after": (after, difference.after.begins)}
    return [
        (replace(row.only(row.ts >= begin), label=f"{side}, {row.label}"), begin)
        for side, (traces, begins) in runs.items()
        for rank, begin in begins.items()
        for row in lanes(rank, traces[rank])
    ]
