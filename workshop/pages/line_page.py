"""Draws a line profile: the source, with the hits, the time and the heat of each line beside it. It runs no script."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from workshop.notebooks.cell_places import title
from workshop.pages import template
from workshop.profiles.line_profile import Function, LineProfile
from workshop.profiles.line_tables import LineTable

MIN_HEAT = 0.001
"""A share of the run's time: a line with less is not coloured, and functions with less are listed last."""

EXPLANATION = """\
The time of a line includes the time of what it calls, so that a function and its caller both have it. The share is that
of the function; the heat is that of the function with most time, which of a script is the whole run. Of a statement
over several lines, the first line has the figures. A line that calls its own function has the time of every level of
the recursion again: it is marked, and counts in no sum."""


def page(profile: LineProfile, groups: Mapping[str, Sequence[LineTable]], whole: bool = True) -> str:
    """Return a page that shows the source of a profile, with one group of tables at a time.

    Args:
        profile: the profile.
        groups: the tables of all processes together, which are shown first, and of each by itself.
        whole: whether the first group has the whole files; else only the functions that have a table are shown.
    """
    recorded = profile.recorded
    summary = " ".join(recorded.command) + f": {recorded.seconds:.1f} s" if recorded else str(profile.path)
    shown = [(process, found) for process, found in groups.items() if found]
    choices, sections, style = "", "", ""
    for number, (process, found) in enumerate(shown):
        choices += f'<input type="radio" name="process" class="choice" id="p{number}"{" checked" * (number == 0)}>'
        choices += f'<label for="p{number}">{escape(process)}</label>' * (len(shown) > 1)
        tables = _functions(found, number) + _files(found, number, whole=whole and number == 0)
        sections += f'<section class="chosen" id="s{number}">{tables}</section>'
        style += f"#p{number}:checked ~ #s{number} {{ display: block; }} "
    body = [template.quiet(escape(summary)), f"<style>{style}</style>", choices, sections, template.quiet(EXPLANATION)]
    return template.fill(profile.path.name, body, "workshop lines")


def fragment(table: LineTable) -> str:
    """Return the source of one function as HTML for a notebook, with a style that leaves the notebook as it is."""
    return f"<style>{template.read('listing.css')}</style>{_listing([table], table.whole_s, {})}"


def _functions(found: Sequence[LineTable], number: int) -> str:
    """List the functions that ran in a process, those with little time folded."""
    hot: list[str] = []
    cold: list[str] = []
    longest = _longest(found)
    for place, table in enumerate(found):
        entry = f'<li><a href="#s{number}-f{place}">{escape(table.function.title)}</a> '
        entry += f'<span class="quiet">{_time(table.seconds)}</span></li>'
        (hot if table.seconds >= MIN_HEAT * longest else cold).append(entry)
    functions = f'<ol class="functions">{"".join(hot)}</ol>'
    if cold:
        less = f"{len(cold)} function{'s' * (len(cold) > 1)} with less time"
        functions += f'<details><summary class="quiet">{less}</summary>'
        functions += f'<ol class="functions" start="{len(hot) + 1}">{"".join(cold)}</ol></details>'
    return functions


def _longest(found: Sequence[LineTable]) -> float:
    return max(table.seconds for table in found)


def _files(found: Sequence[LineTable], number: int, whole: bool) -> str:
    """Show the files with their lines, the one with the hottest function first."""
    anchors = {table.function: f"s{number}-f{place}" for place, table in enumerate(found)}
    of_files: dict[Path, list[LineTable]] = {}
    for table in found:
        of_files.setdefault(table.function.file, []).append(table)
    return "".join(
        f"<h2>{escape(title(str(file)))}</h2>{_listing(tables, _longest(found), anchors, whole)}"
        for file, tables in of_files.items()
    )


def _listing(found: Sequence[LineTable], run_s: float, anchors: Mapping[Function, str], whole: bool = False) -> str:
    """Show the lines of some functions of one file, or all of its lines; as hot as their share of the run."""
    source = found[0].source.lines
    rows = {row.first: row for table in reversed(found) for row in table.rows}
    heads = {table.function.first_line: anchors.get(table.function, "") for table in reversed(found)}
    last = max([len(source), *(row.last for row in rows.values())])
    wanted = range(1, last + 1) if whole else sorted({number for table in found for number in _lines(table)})
    lines = []
    for number in wanted:
        mark = f' class="function" id="{heads[number]}"' if number in heads else ""
        figures = [""] * 3
        if row := rows.get(number):
            note = "recursive" * row.is_recursive or "once" * row.is_import
            figures = [f"{row.hits:,}", _time(row.seconds), note or f"{row.share:.1%}"]
            heat = 0.0 if note else min(1.0, row.seconds / (run_s or 1.0))
            mark += f' style="--heat:{heat:.3f}"' * (heat >= MIN_HEAT)
        cells = "".join(f"<td>{cell}</td>" for cell in [*figures, number])
        text = source[number - 1] if number <= len(source) else ""
        lines.append(f"<tr{mark}>{cells}<td>{escape(text)}</td></tr>")
    header = "<tr><th>hits</th><th>time</th><th>share</th><th>line</th><th></th></tr>"
    return f'<div class="listing"><table>{header}{"".join(lines)}</table></div>'


def _lines(table: LineTable) -> range:
    """The lines of a function, from its first to the last one that ran."""
    first = table.rows[0].first if table.is_module else table.function.first_line
    return range(min(first, table.rows[0].first), max(row.last for row in table.rows) + 1)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
