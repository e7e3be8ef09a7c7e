"""The command `workshop py-spy-report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.options import (
    INSTRUMENTS,
    CsvOption,
    JsonOption,
    LibraryOption,
    RecordingsArgument,
    RecordingsOption,
    exclude_each_other,
)
from workshop.cli.output import filled, print_csv, print_json, say, terminal_width
from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.profiles.py_spy_report import ReportTable
    from workshop.profiles.stacks import Recording

app = typer.Typer()


@app.command("py-spy-report", rich_help_panel=INSTRUMENTS)
def py_spy_report(
    files: RecordingsArgument = None,
    file: RecordingsOption = None,
    library: LibraryOption = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate-leaf-paths", help="One row for all stacks that end alike.")
    ] = False,
    rows: Annotated[str, typer.Option("--num-rows", help="How many, or all.")] = "10",
    total: Annotated[bool, typer.Option("--total/--self", help="Count what a function called, too.")] = False,
    own: Annotated[bool, typer.Option("--own", help="Your own code only; what it called counts for it.")] = False,
    modules: Annotated[bool, typer.Option("--module-frames", help="Show the bodies of modules, too.")] = False,
    by: Annotated[
        str | None, typer.Option(help="A table for each process, thread or rank.", show_default=False)
    ] = None,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Two recordings: what got slower, what faster?", metavar="BEFORE AFTER", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """See in which lines a py-spy recording spent its time.

    And which line of your own led there.

    Example: workshop py-spy-report --file py-spy-outputs --aggregate-leaf-paths

    Columns: name, path, line are those of the innermost function; library_function_... those of the innermost one whose
    path contains --library-name; proportion (n) is the share of all samples that are in functions, and their number.
    Line -1: there is none. A narrow terminal gets two lines a row: the innermost function, and below it yours.
    """
    from workshop.profiles import sample_groups
    from workshop.profiles.code_origin import script_of

    most = _number_of_rows(rows)
    exclude_each_other(as_json, as_csv)
    if by not in (None, "process", "thread", "rank"):
        raise typer.BadParameter("is process, thread or rank", param_hint="--by")
    if diff:
        _report_changes(*diff, total, most, as_json, as_csv)
        return
    recording = read_recording(files, file)
    library = library or script_of(recording)
    groups = sample_groups.split(recording, by) if by else {"": recording}
    found = {name: _table(each, library, aggregate, total, own, modules, recording) for name, each in groups.items()}
    if as_json or as_csv:
        _print_data(found, by, most, as_json)
    else:
        _print_text(found, by, most, recording)
    _say_notes(recording, found, by, library)


def read_recording(*files: list[Path] | None) -> "Recording":
    """Read recordings, named in one way or another, as one.

    Raises:
        WorkshopError: none is named, or one cannot be read.
    """
    from workshop.profiles import stacks

    paths = [path for each in files for path in each or []]
    if not paths:
        raise WorkshopError("name a recording: --file FILE")
    return stacks.read(*paths)


def _table(
    recording: "Recording", library: str, aggregate: bool, total: bool, own: bool, modules: bool, whole: "Recording"
) -> "ReportTable":
    from workshop.profiles import code_origin, py_spy_report

    if own:  # the body of the script is one's own code, too
        is_own = code_origin.CodeOrigins(whole, library).is_own
        return py_spy_report.leaves(recording, library, modules=True, is_own=is_own)
    if total:
        return py_spy_report.totals(recording, library, modules)
    return py_spy_report.leaves(recording, library, aggregate, modules)


def _print_data(found: "dict[str, ReportTable]", by: str | None, most: int | None, as_json: bool) -> None:
    from workshop.profiles.py_spy_report import COLUMNS

    flat = [
        {**({by: name} if by else {}), **row.as_dict()} for name, table in found.items() for row in table.rows[:most]
    ]
    if as_json:
        print_json(rows=flat)
    else:
        print_csv(flat, [*([by] if by else []), *COLUMNS, "samples"])


def _print_text(found: "dict[str, ReportTable]", by: str | None, most: int | None, recording: "Recording") -> None:
    from workshop.cli.py_spy_tables import as_text

    for name, table in found.items():
        if by and not table.samples:
            continue  # a process that never ran a function, such as Python's resource tracker
        if by:
            print(f"{name}: {table.samples} samples, {table.samples / recording.samples:.1%} of all\n")
        print(as_text(table.rows[:most], terminal_width()), end="\n\n"[: 1 + bool(by)])


def _report_changes(before: Path, after: Path, total: bool, most: int | None, as_json: bool, as_csv: bool) -> None:
    from workshop.cli.py_spy_tables import changes_as_text
    from workshop.profiles import py_spy_report, stacks

    old, new = stacks.read(before), stacks.read(after)
    changes = py_spy_report.changes(old, new, total)[:most]
    flat = [
        {"change": each.more, "before": each.before, "after": each.after, **each.function._asdict()} for each in changes
    ]
    if as_json:
        print_json(rows=flat)
    elif as_csv:
        print_csv(flat, ["change", "before", "after", "name", "path"])
    else:
        print(changes_as_text(changes, old.samples, new.samples))
        say(filled(f"{old.samples} samples before, {new.samples} after. They are time only if both did the same work."))


def _say_notes(recording: "Recording", tables: "dict[str, ReportTable]", by: str | None, library: str) -> None:
    """Say what is not in the tables, and what might mislead in them."""
    from workshop.cli.py_spy_tables import left_out
    from workshop.profiles import sample_groups

    for note in recording.damage:
        say(note)
    if note := left_out(list(tables.values())):
        say(filled(note))
    if not any(library in frame.path for stack in recording.stacks for frame in stack.frames):
        say(filled(f"no path contains {library}, so nothing counts as your own code; name it with --library-name"))
    if not by and (of_workers := sample_groups.workers(recording)):
        samples = sum(stack.samples for stack in recording.stacks if sample_groups.process_id(stack) in of_workers)
        workers = f"{len(of_workers)} DataLoader worker{'s' * (len(of_workers) > 1)}"
        say(filled(f"{samples} of {recording.samples} samples are of {workers}; --by process tells them apart"))


def _number_of_rows(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter("is a number from 1, or all", param_hint="--num-rows")
    return int(text)
