"""Line profiles as a person reads them, in a terminal of 80 columns."""

import textwrap
from collections.abc import Mapping

from rich.text import Text

from workshop.cli.output import console, filled
from workshop.notebooks.cell_places import place
from workshop.profiles.line_change import NOT_PROFILED, NOT_RUN, FunctionChange, LineChange, RowChange
from workshop.profiles.line_profile import LineProfile
from workshop.profiles.line_tables import TOGETHER, LineTable

MIN_SHARE = 0.01
"""A share of their function's time: lines with less are hidden, as are functions with less of the hottest's."""

RECURSIVE = "recursive"
"""The note on a row that calls its own function, instead of a share."""

AS_UNTOUCHED = "like untouched lines"
"""The note on a row that changed by the same factor as the untouched lines."""


def print_tables(profile: LineProfile, tables: Mapping[str, list[LineTable]], everything: bool) -> None:
    """Print the tables of each process, or of all together: the eight hottest functions, with their hot lines."""
    out = console()
    count = len(profile.processes)
    run = f": {profile.recorded.seconds:.1f} s, {count} process{'es' * (count > 1)}" if profile.recorded else ""
    out.print(Text(f"\n{profile.path}{run}"))
    hidden = 0
    for process, found in tables.items():
        if process != TOGETHER:
            out.print(Text(f"\n{process}", "bold"))
        hottest = max((table.seconds for table in found), default=0.0)
        shown = found if everything else [each for each in found[:8] if each.seconds >= MIN_SHARE * hottest]
        hidden += len(found) - len(shown)
        for table in shown:
            out.print(_heading(table))
            _print_rows(_rows(table, hottest or 1.0, everything))
    if hidden:
        out.print(f"\n{hidden} function{'s' * (hidden > 1)} with less time: --all shows them, and all lines that ran.")


def seconds(value: float) -> str:
    """Return a time with three or four digits and its unit."""
    if abs(value) < 5e-9:
        return "0 s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if abs(value) * factor >= 0.9995 or unit == "us":
            break
    return f"{value * factor:.{0 if abs(value) * factor >= 100 else 1 if abs(value) * factor >= 10 else 2}f} {unit}"


def _heading(table: LineTable) -> Text:
    function = table.function
    at = f"  {place(str(function.file), function.first_line)}" if not table.is_module else ", outside of functions"
    return Text("\n").append(function.title, "bold").append(f"{at}  {seconds(table.seconds)}")


Line = tuple[str, list[str]]
"""The style and the cells of a line; the last cell is source."""


def _rows(table: LineTable, run_s: float, everything: bool) -> list[Line]:
    """The lines of a function; its imports are one row at the end, unless `everything` is shown."""
    lines: list[Line] = [("dim", ["line", "hits", "time", "share", ""])]
    for row in table.rows:
        number = f"{row.first}" if row.first == row.last else f"{row.first}-{row.last}"
        share = row.seconds / (table.seconds or 1.0)
        if row.is_recursive:
            lines.append(("", [number, f"{row.hits}", seconds(row.seconds), RECURSIVE, row.text]))
        elif not row.is_import:
            style = "bold red" if row.seconds >= 0.5 * run_s else "yellow" if row.seconds >= 0.1 * run_s else ""
            if everything or share >= MIN_SHARE:
                lines.append((style, [number, f"{row.hits}", seconds(row.seconds), f"{share:.1%}", row.text]))
        elif everything:
            lines.append(("dim", [number, f"{row.hits}", seconds(row.seconds), "once", row.text]))
    if table.imports_s and not everything:
        lines.append(("dim", ["", "", seconds(table.imports_s), "once", "imports"]))
    return lines


def _print_rows(lines: list[Line], whole: bool = False) -> None:
    """Print rows of cells: the source left-aligned and cut at the terminal's width, all others right-aligned.

    With `whole`, the source is not cut but goes on in lines below.
    """
    out = console()
    widths = [max(map(len, column)) for column in zip(*(cells[:-1] for _, cells in lines), strict=True)]
    for style, (*figures, source) in lines:
        beside = [f"{cell:>{width}}" for cell, width in zip(figures, widths, strict=True)]
        begin = "  ".join([*beside, ""])
        if whole and len(begin) < out.width / 2:
            shown = textwrap.wrap(" ".join(source.split()), out.width - len(begin)) or [""]
            row = begin + f"\n{' ' * len(begin)}".join(shown)
        else:
            row = _cut(f"{begin}{' '.join(source.split())}".rstrip(), out.width)
        out.print(Text(row, style))


def _cut(row: str, width: int) -> str:
    """Return a row that is no wider than this, cut between two words if that costs no more than 12 columns."""
    if len(row) <= width:
        return row
    end = row.rfind(" ", width - 12, width - 1)
    return f"{row[: end if end > 0 else width - 2].rstrip()} …"


def print_change(change: LineChange, everything: bool) -> None:
    """Print what got faster or slower, function by function and line by line."""
    out = console()
    out.print(Text(f"\n{compared(change)}"))
    for text in other_length(change):
        out.print(f"\n{filled(text)}")
    largest = max((abs(function.seconds) for function in change.functions), default=0.0)
    hidden = 0
    for function in change.functions:
        if everything or abs(function.seconds) >= MIN_SHARE * largest:
            out.print(_change_heading(function))
            _print_rows(_changed_rows(function, largest, everything), whole=True)
        else:
            hidden += 1
    if hidden:
        out.print(f"\n{hidden} function{'s' * (hidden > 1)} that changed less: --all shows them.")
    if change.slowdown != 1:
        out.print(f"\n{filled(_slowdown_text(change.slowdown, change.was_quiet))}")
    for each_busy in busy_runs(change):
        out.print(f"\n{filled(each_busy)}", markup=False)
    if min(change.runs) == 1:
        out.print("\nTwo runs of one script differ, too: folders with five runs each tell what is noise.")


def compared(change: LineChange) -> str:
    """Say how many runs are compared, and how long they took."""
    counts = [f"{number} run{'s' * (number > 1)}" for number in change.runs]
    if not change.runs_s:
        return f"{counts[0]} before, {counts[1]} after"
    before, after = change.runs_s
    means = " on average" if max(change.runs) > 1 else ""
    return f"{counts[0]} before, {counts[1]} after: {seconds(before)} and {seconds(after)}{means}"


def other_length(change: LineChange) -> list[str]:
    """Say it if the runs are of different lengths, and how they are compared then."""
    if change.more_hits == 1:
        return []
    more = change.more_hits
    ratio, when = (more, "after") if more > 1 else (1 / more, "before")
    return [
        f"The runs differ in length: the lines ran {ratio:.1f}x as often {when}. So each line is compared by the time "
        "of a hit: the time before is that of as many hits as after."
    ]


def busy_runs(change: LineChange) -> list[str]:
    """Say of each run on a busy machine that it was one."""
    runs = [each for side in change.machines for each in side.items()]
    return [f"{path}: {load}" for path, load in runs if load.busy]


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + seconds(value)


def _change_heading(change: FunctionChange) -> Text:
    text = Text("\n").append(change.title, "bold")
    return text.append(f"  {seconds(change.before_s)} -> {seconds(change.after_s)}  {_signed(change.seconds)}")


def _changed_rows(change: FunctionChange, largest: float, everything: bool) -> list[Line]:
    lines: list[Line] = [("dim", ["before", "after", "time", "after", "change", ""])]
    for row in change.rows:
        if everything or abs(row.seconds) >= MIN_SHARE * largest:
            is_told = not (row.is_noise or row.as_untouched or row.is_recursive)
            style = "dim" if not is_told else "green" if row.seconds < 0 else "red"
            numbers = [str(side.first) if side else "" for side in (row.before, row.after)]
            times = [seconds(row.before_s) if row.before else "", seconds(row.after_s) if row.after else ""]
            lines.append((style, [*numbers, *times, _signed(row.seconds), _says(row)]))
    return lines


def _says(row: RowChange) -> str:
    shown = row.after or row.before
    assert shown
    when = " before" * (row.before is None and row.kind in (NOT_RUN, NOT_PROFILED))
    notes = (
        [f"{row.kind}{when}"] * (row.kind != "same")
        + [RECURSIVE] * row.is_recursive
        + ["noise"] * row.is_noise
        + [AS_UNTOUCHED] * row.as_untouched
    )
    return f"({', '.join(notes)}) {shown.text}" if notes else shown.text


def _slowdown_text(slowdown: float, was_quiet: bool) -> str:
    """Say what the untouched lines tell about the machine; of a quiet one, that it was not busier."""
    ratio, slower, busier = (slowdown, "slower", "busier") if slowdown > 1 else (1 / slowdown, "faster", "less busy")
    why = "no other program was busy, so a hit had more or less to do, or the cores ran at another speed"
    if not was_quiet:
        why = f"the machine was {busier} in the later run, or a hit had more or less to do"
    marked = f"Rows that changed by as much, and no more, are marked: {AS_UNTOUCHED}."
    return f"The lines you did not touch are {ratio:.1f}x {slower}: {why}. {marked}"
