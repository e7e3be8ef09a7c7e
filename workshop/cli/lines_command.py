"""The instrument that reads line profiles: `workshop lines`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.options import INSTRUMENTS, DiffOption, FormatOption, JsonOption, before_and_after, exclude_each_other
from workshop.cli.output import print_json, say, write_file
from workshop.cli.reported import of_line_change, wanted, write_reports
from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.profiles.line_profile import LineProfile

RECORD = "workshop record lines -- train.py configs/example_config.py"

app = typer.Typer()


@app.command(rich_help_panel=INSTRUMENTS)
def lines(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="The profile; by default the newest here.")
    ] = None,
    function: Annotated[str | None, typer.Option("--function", help="This function alone.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All functions, and all lines that ran.")] = False,
    by: Annotated[str | None, typer.Option(help="process: tables for each.")] = None,
    diff: DiffOption = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with the whole source.")] = None,
    formats: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """See in which lines a run spent its time.

    It reads the profiles of `workshop record lines` and of kernprof.

    Example: workshop lines --function __getitem__

    The time of a line includes the time of what it calls, so that a function and its caller both have it. The share is
    that of the function. A statement over several lines is one row. With --diff, name two profiles, or two folders with
    several runs each, which tell a change from noise.
    """
    from workshop.cli import line_text
    from workshop.profiles import line_profile, line_tables

    if by not in (None, "process"):
        raise typer.BadParameter("is process", param_hint="--by")
    if diff:
        exclude_each_other(diff=diff, html=html, by=by)
        _print_change(*before_and_after(files or []), function, everything, formats, as_json)
        return
    if formats:
        raise typer.BadParameter("goes with --diff", param_hint="--format")
    if html and (by or as_json):
        raise WorkshopError("a page shows all processes: take --by and --json without --html")
    if files and len(files) > 1:
        raise WorkshopError("name one line profile; --diff compares two")
    profile = line_profile.read(files[0] if files else _newest())
    apart = len(profile.processes) > 1 if html else by == "process"
    tables = line_tables.tables(profile, together=bool(html) or not apart, by_process=apart, name=function)
    if html:
        from workshop.pages import line_page

        write_file(html, line_page.page(profile, tables, whole=function is None))
        print(f"{html} shows {profile.path}. Open it in a browser.")
    elif as_json:
        print_json(**line_tables.as_dict(profile, tables))
    else:
        line_text.print_tables(profile, tables, everything or function is not None)
    for note in line_tables.notes(profile, tables):
        say(note)


def _print_change(
    before: Path, after: Path, function: str | None, everything: bool, formats: list[str] | None, as_json: bool
) -> None:
    from workshop.cli import line_text
    from workshop.profiles import line_change

    change = line_change.between(_read_runs(before), _read_runs(after))
    change = change.of(function) if function else change
    if not write_reports(wanted(formats, as_json), lambda: of_line_change(str(after), change)):
        print_json(**change.as_dict()) if as_json else line_text.print_change(change, everything or bool(function))


def _newest() -> Path:
    found = sorted(Path().glob("*.lprof"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise WorkshopError(f"there is no line profile here; make one: {RECORD}")
    return found[-1]


def _read_runs(path: Path) -> "list[LineProfile]":
    """Read one profile, or all in a folder."""
    from workshop.profiles import line_profile

    if not path.is_dir():
        return [line_profile.read(path)]
    if not (found := sorted(path.glob("*.lprof"))):
        raise WorkshopError(f"there is no line profile in {path}")
    return [line_profile.read(each) for each in found]
