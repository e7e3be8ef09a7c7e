"""The command `workshop trace`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperOption

from workshop.cli.options import INSTRUMENTS, CsvOption, DiffOption, JsonOption, exclude_each_other
from workshop.cli.output import print_csv, print_json, progress_line, say, terminal_width, write_file
from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.traces.trace_files import Traces

ALL = "all"

Result = TypeVar("Result")

app = typer.Typer()


class NamesTables(TyperCommand):
    """A command whose help lists the tables, which are loaded only for that."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from workshop.traces.comparison import TABLES as OF_STEPS
        from workshop.traces.tables import TABLES

        for option in self.params:
            if isinstance(option, TyperOption) and option.name == "tables":
                known = f"{', '.join(TABLES)}; or all. With --diff: {', '.join(OF_STEPS)}."
                option.help = f"Print these tables instead of the findings, separated by commas: {known}"
        super().format_help(ctx, formatter)


@app.command(cls=NamesTables, rich_help_panel=INSTRUMENTS)
def trace(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Traces of all ranks, or their folder; by default the newest of prof, prof-2, ..."),
    ] = None,
    tables: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Print these tables instead of the findings.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="line", help="Print which lines of your code a device worked for: --tables lines."),
    ] = None,
    hta: Annotated[
        bool, typer.Option("--hta-compat", help="With --json: the numbers of HolisticTraceAnalysis.")
    ] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with a timeline to this file.", metavar="FILE")
    ] = None,
    diff: DiffOption = False,
) -> None:
    """See in traces what each device did, and what it cost.

    Traces of torch.profiler: computing, communicating, copying, idle, and why.

    Example: workshop trace prof

    Reads traces of torch.profiler, gzipped or not, and SQLite exports of nsys; a damaged trace is read as far as
    possible. All times are exact to the nanosecond. With --hta-compat the numbers are those of HolisticTraceAnalysis,
    with its rounding and its known errors. With --diff it says what changed from one run to another, and what of that
    is noise.
    """
    from workshop.recording.output_paths import newest

    exclude_each_other(json=as_json, csv=as_csv)
    if by not in (None, "line"):
        raise typer.BadParameter("is line", param_hint="--by")
    if by:
        exclude_each_other(by=by, tables=tables, diff=diff)
        tables = "lines"
    names = _names(tables, diff)
    if as_csv and (names is None or len(names) > 1):
        raise typer.BadParameter("prints one table: name it with --tables", param_hint="--csv")
    if html and (tables or as_json or as_csv):
        raise typer.BadParameter("draws everything, and goes with no other choice but --diff", param_hint="--html")
    if hta and (diff or tables or not as_json):
        raise typer.BadParameter("goes with --json, and has all tables; not with --diff", param_hint="--hta-compat")
    paths = paths or ([] if diff else [_newest()])
    if diff:
        _diff(paths, names, as_json, as_csv, html)
    else:
        _print(_read(paths), names, hta, as_json, as_csv, html)
    for folder in filter(Path.is_dir, paths):
        if (newer := newest(folder)) not in paths:
            say(f"{newer} is a newer recording than {folder}: workshop trace {newer}")


def _names(asked: str | None, diff: bool) -> list[str] | None:
    """Return the names of the tables that were asked for."""
    from workshop.traces.comparison import TABLES as OF_STEPS
    from workshop.traces.tables import TABLES

    known = [*(OF_STEPS if diff else TABLES)]
    if asked is None or asked == ALL:
        return known if asked else None
    names = [name.strip() for name in asked.split(",")]
    if {*names} - {*known}:
        where = " with --diff" * diff
        raise typer.BadParameter(f"is one or more of {', '.join(known)}{where}, or {ALL}", param_hint="--tables")
    return names


def _newest() -> Path:
    from workshop.recording.output_paths import newest

    found = newest(Path("prof"))
    if not found.is_dir():
        raise WorkshopError("there is no recording here: workshop record torch -- SCRIPT makes one")
    say(f"reading {found}, the newest recording here")
    return found


def _read(paths: list[Path]) -> "Traces":
    """Read the traces of one run, and say in a terminal how far that is."""
    from workshop.traces.trace_files import load

    with progress_line(only_in_terminal=True) as show:
        return load(paths, lambda done, total: show(f"reading: {done / 1e6:.0f} of {total / 1e6:.0f} MB"))


def _analyzed(analyze: Callable[[], Result]) -> Result:
    """Return what an analysis finds, and say in a terminal that it is under way."""
    with progress_line(only_in_terminal=True) as show:
        show("looking at what was recorded")
        return analyze()


def _print(
    traces: "Traces", names: list[str] | None, hta: bool, as_json: bool, as_csv: bool, html: Path | None
) -> None:
    from workshop.cli import trace_text
    from workshop.traces.by_line import notes
    from workshop.traces.tables import TABLES, tables
    from workshop.traces.trace_findings import findings

    if hta:
        from workshop.traces import hta as compatible

        print(json.dumps(compatible.analyses(compatible.by_rank(traces)), indent=2))
    elif as_csv and names:
        if rows := _analyzed(lambda: tables(traces, names))[names[0]]:
            print_csv(rows, list(dict.fromkeys(key for row in rows for key in row)))
        else:
            say(TABLES[names[0]].without_rows)
    elif html:
        from workshop.pages.trace_page import page

        write_file(html, _analyzed(lambda: page(traces, tables(traces), trace_text.with_lessons(findings(traces)))))
        print(f"{html} shows {len(traces)} trace{'s' * (len(traces) != 1)}. Open it in a browser.")
    elif as_json:
        found = [] if names else _analyzed(lambda: findings(traces))
        costs = {} if names else {"findings": [trace_text.finding_row(each) for each in found]}
        print_json(traces=trace_text.trace_rows(traces), **_analyzed(lambda: tables(traces, names)), **costs)
    elif names:
        found_tables = _analyzed(lambda: tables(traces, names))
        print(trace_text.tables_text(found_tables, len(traces) > 1, terminal_width()))
    else:
        print(trace_text.findings_text(traces, _analyzed(lambda: findings(traces)), terminal_width()))
    for note in [*traces.notes, *(notes(traces.values()) if "lines" in (names or ()) else ())]:
        say(note)


def _diff(paths: list[Path], names: list[str] | None, as_json: bool, as_csv: bool, html: Path | None) -> None:
    from workshop.cli import trace_text
    from workshop.traces.comparison import compare

    if len(paths) != 2:
        raise typer.BadParameter("takes two traces, or two folders of them: BEFORE AFTER", param_hint="--diff")
    before, after = (_read([path]) for path in paths)
    found = _analyzed(lambda: compare(before, after))
    if html:
        from workshop.pages.trace_page import difference_page

        write_file(html, difference_page(before, after, found))
        print(f"{html} shows what changed. Open it in a browser.")
    elif as_csv and names:
        print_csv([change.row() for change in found.tables[names[0]]], list(found.step.row()))
    elif as_json:
        print_json(**trace_text.difference_fields(before, after, found, names))
    else:
        print(trace_text.difference_text(found, names, terminal_width()))
    for note in [*before.notes, *after.notes]:
        say(note)
