"""Draws a line profile as one HTML file, which loads nothing and runs no script."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from workshop import html_page
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.line_tables import LineTable, tables
from workshop.profiles.statements import Row

LEAST_HEAT = 0.005
"""A line with a smaller share of its function's time is not coloured."""


def page(profile: LineProfile, name: str | None = None) -> str:
    """Return a page that shows the source of a profile: of all processes together, and of each by itself.

    Args:
        profile: the profile.
        name: the name of a function to be shown alone; None for all, and the whole source.

    Raises:
        WorkshopError: there is no such function.
    """
    groups = tables(profile, name=name)
    recorded = profile.recorded
    if recorded and len(recorded.processes) > 1:
        groups |= tables(profile, by_process=True, name=name)
    shown = [(process, found) for process, found in groups.items() if found]
    choices = "".join(
        f'<input type="radio" name="process" class="process" id="p{number}"{" checked" * (number == 0)}>'
        f'<label for="p{number}">{escape(process)}</label>'
        for number, (process, _) in enumerate(shown)
    )
    sections = []
    for number, (_, found) in enumerate(shown):
        process = _process(profile, found, number, whole=number == 0 and name is None)
        sections.append(f'<section class="process" id="s{number}">{process}</section>')
    return html_page.fill(
        __package__,
        title=profile.path.name,
        summary=escape(" ".join(recorded.command) + f": {recorded.seconds:.1f} s" if recorded else str(profile.path)),
        choices=" ".join(f"#p{number}:checked ~ #s{number} {{ display: block; }}" for number in range(len(shown))),
        processes=(choices if len(shown) > 1 else choices.replace("<label", "<label hidden")) + "".join(sections),
    )


def fragment(profile: LineProfile, table: LineTable) -> str:
    """Return the source of one function as HTML for a notebook."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    only_listing = "\n".join(line for line in style.splitlines() if line.startswith((":root", ".listing")))
    return f"<style>{only_listing}</style>{_listing(profile, [table], 0, whole=False)}"


def _process(profile: LineProfile, found: Sequence[LineTable], number: int, whole: bool) -> str:
    """List the functions that ran in a process, and each file with their lines."""
    entries = "".join(
        f'<li><a href="#s{number}-{_anchor(found, table.function)}">{escape(table.function.title)}</a> '
        f'<span class="quiet">{table.function.seconds:.3f} s</span></li>'
        for table in found
    )
    by_file = sorted(found, key=lambda table: str(table.function.file))
    listings = []
    for file, each in groupby(by_file, key=lambda table: table.function.file):
        listings.append(f"<h2>{escape(str(file))}</h2>{_listing(profile, list(each), number, whole, found)}")
    return f'<ol class="functions">{entries}</ol>{"".join(listings)}'


def _listing(
    profile: LineProfile, found: Sequence[LineTable], number: int, whole: bool, anchors: Sequence[LineTable] = ()
) -> str:
    """The lines of some functions of one file; or all of its lines."""
    source = (profile.source(found[0].function.file) or "").splitlines()
    rows = {row.first: row for table in reversed(found) for row in table.rows}
    heads = {table.function.first_line: table for table in found if table.function.name != "<module>"}
    last = max([len(source), *(row.last for row in rows.values())])
    wanted: Iterable[int] = range(1, last + 1)
    if not whole:
        wanted = sorted({n for table in found for n in _lines(table, source)})
    lines = []
    for line in wanted:
        text = source[line - 1] if line <= len(source) else ""
        mark = ""
        if line in heads:
            mark = f' class="function" id="s{number}-{_anchor(anchors, heads[line].function)}"'
        lines.append(_line(line, text, rows.get(line), mark))
    header = "<tr><th>hits</th><th>time</th><th>share</th><th>line</th><th></th></tr>"
    return f'<div class="listing"><table>{header}{"".join(lines)}</table></div>'


def _lines(table: LineTable, source: Sequence[str]) -> range:
    """The lines of a function, from its first to the last one that ran."""
    first = table.rows[0].first if table.function.name == "<module>" else table.function.first_line
    return range(min(first, table.rows[0].first), max(row.last for row in table.rows) + 1)


def _line(number: int, text: str, row: Row | None, mark: str) -> str:
    figures = ["", "", ""]
    if row:
        figures = [f"{row.hits:,}", _milliseconds(row.seconds), f"{row.share:.1%}"]
        if row.share >= LEAST_HEAT:
            mark += f' style="--heat:{row.share:.3f}"'
    cells = "".join(f"<td>{cell}</td>" for cell in [*figures, number])
    return f"<tr{mark}>{cells}<td>{escape(text)}</td></tr>"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def _anchor(found: Sequence[LineTable], function: Function) -> str:
    """The name of a function's place in the page."""
    return f"f{next((n for n, table in enumerate(found) if table.function is function), 0)}"
