"""Draws a line profile as one HTML file, which loads nothing and runs no script."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from workshop import html_page
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.line_tables import LineTable
from workshop.profiles.statements import Row

MIN_HEAT = 0.001
"""A line with a smaller share of the hottest function's time is not coloured, nor is such a function listed first."""


def page(profile: LineProfile, groups: Mapping[str, Sequence[LineTable]], whole: bool = True) -> str:
    """Return a page that shows the source of a profile, with one group of tables at a time.

    Args:
        profile: the profile.
        groups: the tables of all processes together, which are shown first, and of each by itself.
        whole: whether the first group has the whole files; else only the functions that have a table are shown.
    """
    recorded = profile.recorded
    shown = [(process, found) for process, found in groups.items() if found]
    choices = "".join(
        f'<input type="radio" name="process" class="process" id="p{number}"{" checked" * (number == 0)}>'
        + f'<label for="p{number}">{escape(process)}</label>' * (len(shown) > 1)
        for number, (process, _) in enumerate(shown)
    )
    sections = []
    for number, (_, found) in enumerate(shown):
        process = _process(found, number, whole=whole and number == 0)
        sections.append(f'<section class="process" id="s{number}">{process}</section>')
    return html_page.fill(
        __package__,
        title=profile.path.name,
        summary=escape(" ".join(recorded.command) + f": {recorded.seconds:.1f} s" if recorded else str(profile.path)),
        listing=_style(),
        choices=" ".join(f"#p{number}:checked ~ #s{number} {{ display: block; }}" for number in range(len(shown))),
        processes=choices + "".join(sections),
    )


def fragment(table: LineTable) -> str:
    """Return the source of one function as HTML for a notebook."""
    return f"<style>{_style()}</style>{_listing([table], MIN_HEAT * table.function.seconds, {})}"


def _style() -> str:
    """The style of a listing, which does not hang on the page around it."""
    return files(__package__).joinpath("listing.css").read_text(encoding="utf-8")


def _process(found: Sequence[LineTable], number: int, whole: bool) -> str:
    """List the functions that ran in a process, and the files with their lines, the hottest first."""
    least_s = MIN_HEAT * found[0].seconds
    entries = [
        f'<li><a href="#s{number}-f{place}">{escape(table.function.title)}</a> '
        f'<span class="quiet">{_time(table.seconds)}</span></li>'
        for place, table in enumerate(found)
    ]
    hot = sum(table.seconds >= least_s for table in found)
    functions = f'<ol class="functions">{"".join(entries[:hot])}</ol>'
    if entries[hot:]:
        less = f"{len(entries[hot:])} functions with less time"
        functions += (
            f'<details><summary class="quiet">{less}</summary>'
            f'<ol class="functions" start="{hot + 1}">{"".join(entries[hot:])}</ol></details>'
        )
    anchors = {table.function: f"s{number}-f{place}" for place, table in enumerate(found)}
    of_files: dict[Path, list[LineTable]] = {}
    for table in found:
        of_files.setdefault(table.function.file, []).append(table)
    listings = "".join(
        f"<h2>{escape(str(file))}</h2>{_listing(tables_of, least_s, anchors, whole)}"
        for file, tables_of in of_files.items()
    )
    return functions + listings


def _listing(
    found: Sequence[LineTable],
    least_s: float,
    anchors: Mapping[Function, str],
    whole: bool = False,
) -> str:
    """The lines of some functions of one file; or all of its lines."""
    source = found[0].source.lines
    rows = {row.first: row for table in reversed(found) for row in table.rows}
    heads = {table.function.first_line: anchors.get(table.function, "") for table in reversed(found)}
    last = max([len(source), *(row.last for row in rows.values())])
    wanted = range(1, last + 1) if whole else sorted({number for table in found for number in _lines(table)})
    lines = []
    for number in wanted:
        row = rows.get(number)
        mark = f' class="function" id="{heads[number]}"' if number in heads else ""
        if row and row.seconds >= least_s:
            mark += f' style="--heat:{row.share:.3f}"'
        lines.append(_line(number, source[number - 1] if number <= len(source) else "", row, mark))
    header = "<tr><th>hits</th><th>time</th><th>share</th><th>line</th><th></th></tr>"
    return f'<div class="listing"><table>{header}{"".join(lines)}</table></div>'


def _lines(table: LineTable) -> range:
    """The lines of a function, from its first to the last one that ran."""
    first = table.rows[0].first if table.function.name == "<module>" else table.function.first_line
    return range(min(first, table.rows[0].first), max(row.last for row in table.rows) + 1)


def _line(number: int, text: str, row: Row | None, mark: str) -> str:
    figures = [f"{row.hits:,}", _time(row.seconds), f"{row.share:.1%}"] if row else [""] * 3
    cells = "".join(f"<td>{cell}</td>" for cell in [*figures, number])
    return f"<tr{mark}>{cells}<td>{escape(text)}</td></tr>"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
