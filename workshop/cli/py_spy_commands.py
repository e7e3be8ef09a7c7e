"""The instruments that read recordings of py-spy: `workshop py-spy-report` and `workshop flamegraph`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from workshop.cli.options import INSTRUMENTS, CsvOption, DiffOption, JsonOption, before_and_after, exclude_each_other
from workshop.cli.output import print_csv, print_json, say, terminal_width, write_file
from workshop.cli.terminal_tables import plain_table
from workshop.errors import WorkshopError
from workshop.profiles import py_spy_report, recorded_runs, sample_groups
from workshop.profiles.code_origin import CodeOrigins, script_of
from workshop.profiles.py_spy_report import COLUMNS, NOT_FOUND, ReportRow, ReportTable, SampleChange
from workshop.profiles.stacks import RECORD_AGAIN, Recording
from workshop.recording.py_spy import FOLDER

app = typer.Typer()

RecordingsArgument = Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...")]
RecordingsOption = Annotated[
    list[Path] | None, typer.Option("--file", help="A recording, or a folder: its newest run; repeatable.")
]
LibraryOption = Annotated[
    str | None,
    typer.Option(
        "--library-name", help="A string in the paths of your own code; by default the name of the recorded script."
    ),
]


@app.command("py-spy-report", rich_help_panel=INSTRUMENTS)
def report(
    files: RecordingsArgument = None,
    file: RecordingsOption = None,
    library: LibraryOption = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate-leaf-paths/--each-stack", help="One row for all stacks that end alike.")
    ] = True,
    rows: Annotated[str, typer.Option("--num-rows", help="The number of rows, or all.")] = "10",
    total: Annotated[bool, typer.Option("--total/--self", help="Count what a function called, too.")] = False,
    user_code: Annotated[
        bool, typer.Option("--user-code", "--own", help="Your own code only, with what it called.")
    ] = False,
    modules: Annotated[bool, typer.Option("--module-frames", help="Show the bodies of modules, too.")] = False,
    by: Annotated[str | None, typer.Option(help="A table for each process, thread or rank.")] = None,
    diff: DiffOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """See in which lines a py-spy recording spent its time.

    The report also names the line of your own code that led there.

    Example: workshop py-spy-report --file py-spy-outputs

    Columns: name, path and line are the innermost function's; library_function_... those of the innermost one whose
    path contains --library-name (without it: of the script, else its body); proportion (n) is the share of all samples
    that are in functions, and their number. Line -1: there is none. A narrow terminal gets two lines a row: the
    innermost function, and below it yours.
    """
    if rows != "all" and not (rows.isdecimal() and int(rows)):
        raise typer.BadParameter("is a number from 1, or all", param_hint="--num-rows")
    most, paths = None if rows == "all" else int(rows), [*(files or []), *(file or [])]
    exclude_each_other(json=as_json, csv=as_csv)
    exclude_each_other(total=total, **{"user-code": user_code})
    if by not in (None, "process", "thread", "rank"):
        raise typer.BadParameter("is process, thread or rank", param_hint="--by")
    if diff:
        exclude_each_other(diff=diff, by=by, **{"user-code": user_code, "module-frames": modules})
        _report_changes(*before_and_after(paths), total, most, as_json, as_csv)
        return
    recording = _read(paths, library)
    of_library, is_script = library or script_of(recording), not library
    table_of: Callable[[Recording, str], ReportTable]
    if user_code:  # includes the body of the script
        is_user_code = CodeOrigins(recording, of_library).is_user_code
        table_of = partial(py_spy_report.leaves, modules=True, is_user_code=is_user_code)
    elif total:
        table_of = partial(py_spy_report.totals, modules=modules, is_script=is_script)
    else:
        table_of = partial(py_spy_report.leaves, aggregate=aggregate, modules=modules, is_script=is_script)
    groups = sample_groups.split(recording, by) if by else {"": recording}
    tables = {name: table_of(group, of_library) for name, group in groups.items()}
    if as_json or as_csv:
        flat = [
            {**({by: name} if by else {}), **row.as_dict()}
            for name, table in tables.items()
            for row in table.rows[:most]
        ]
        _print_data(flat, [*filter(None, [by]), *COLUMNS, "samples"], as_json)
    else:
        _print_text(tables, by, most, recording)
    _say_notes(recording, list(tables.values()), by, of_library, has_modules=user_code or modules)


@app.command(rich_help_panel=INSTRUMENTS)
def flamegraph(
    files: RecordingsArgument = None,
    file: RecordingsOption = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Ends in .html, .svg or .speedscope.json.")] = Path(
        "flamegraph.html"
    ),
    library: LibraryOption = None,
    diff: DiffOption = False,
) -> None:
    """Draw a py-spy recording as a flame graph.

    The result is a single file, which any browser opens without a network.

    Example: workshop flamegraph --file py-spy-outputs/profile.raw

    Click a frame to zoom into it, Esc to get back; / searches, the arrow keys walk, Enter zooms. Imports, and threads
    that only wait, are folded; one click brings them back (an SVG leaves them out). With --diff BEFORE AFTER, red is
    what got slower, and blue what got faster.
    """
    from workshop.pages import flame_page

    paths, before = [*(files or []), *(file or [])], None
    if diff:
        before, paths = recorded_runs.read(before_and_after(paths)[0]), paths[1:]
    recording = _read(paths, library)
    write_file(output, flame_page.draw(output, recording, before, library or script_of(recording)))
    for note in [*recording.notes, *(before.notes if before else [])]:
        say(note)
    print(f"{output} shows {recording.samples} samples. Open it in a browser.")


def _read(paths: list[Path], library: str | None) -> Recording:
    """Read recordings as one; if none is named, those of the usual folder."""
    if not paths and not Path(FOLDER).is_dir():
        raise WorkshopError(f"there is no recording here: {RECORD_AGAIN}; or name one with --file")
    return recorded_runs.read(*(paths or [Path(FOLDER)]), library=library)


def _print_data(rows: list[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json(rows=rows)
    else:
        print_csv(rows, columns)


def _print_text(tables: dict[str, ReportTable], by: str | None, most: int | None, recording: Recording) -> None:
    for name, table in tables.items():
        if by and not table.samples:
            continue  # a process that never ran a function, such as Python's resource tracker
        if by:
            print(f"{name}: {table.samples} samples, {table.samples / recording.samples:.1%} of all\n")
        print(as_text(table.rows[:most], terminal_width()), end="\n\n" if by else "\n")


def _report_changes(before: Path, after: Path, total: bool, most: int | None, as_json: bool, as_csv: bool) -> None:
    old, new = recorded_runs.read(before), recorded_runs.read(after)
    changes = py_spy_report.changes(old, new, total)[:most]
    for note in (*old.notes, *new.notes):
        say(note)
    if as_json or as_csv:
        _print_data([change._asdict() for change in changes], SampleChange._fields, as_json)
    else:
        print(changes_as_text(changes, old.samples, new.samples, terminal_width()))
        say(f"{old.samples} samples before, {new.samples} after. They are time only if both did the same work.")


def _say_notes(
    recording: Recording, tables: list[ReportTable], by: str | None, library: str, has_modules: bool
) -> None:
    """Say what the tables leave out, and what in them may mislead."""
    for note in recording.notes:
        say(note)
    if left_out := sum(table.left_out for table in tables):
        samples = left_out + sum(table.samples for table in tables)
        where = "in no function but in the body of a module, or before Python had begun, and are left out"
        says = f"{left_out} of {samples} samples were {where}; --module-frames shows those in modules"
        say(f"{left_out} of {samples} samples were before Python had begun, and are left out" if has_modules else says)
    if not any(library in frame.path for stack in recording.stacks for frame in stack.frames):
        say(f"no path contains {library}, so nothing counts as your own code; name it with --library-name")
    if not by and (of_workers := sample_groups.workers(recording)):
        samples = sum(stack.samples for stack in recording.stacks if sample_groups.process_id(stack) in of_workers)
        workers = f"{len(of_workers)} DataLoader worker{'s' * (len(of_workers) > 1)}"
        say(f"{samples} of {recording.samples} samples are of {workers}; --by process tells them apart")


def as_text(rows: list[ReportRow], width: int | None) -> str:
    """Return the rows with all columns side by side, or in two lines each if the terminal is too narrow."""
    wide = plain_table(COLUMNS, [[row.as_dict()[column] for column in COLUMNS] for row in rows], line=" | ")
    if width is None or max(map(len, wide.splitlines())) <= width:
        return wide
    return "\n".join(_narrow(row, width) for row in rows)


def changes_as_text(changes: list[SampleChange], before: int, after: int, width: int | None) -> str:
    """Return the changes between two recordings with `before` and `after` samples, to fit `width` columns."""
    rows = [
        (f"{row.change:+d}", _counted(row.before, before), _counted(row.after, after), row.name, row.path)
        for row in changes
    ]
    wide = plain_table(SampleChange._fields, rows, right=(0, 1, 2), line=" | ")
    if width is None or max(map(len, wide.splitlines())) <= width:
        return wide
    narrow = [
        f"{change:>7}  {_fit(name, path, width - 9)}\n{'':9}{old} before, {new} after"
        for change, old, new, name, path in rows
    ]
    return "\n".join(narrow)


def _narrow(row: ReportRow, width: int) -> str:
    """The leaf in one line, and below it the library function that led there."""
    found = row.as_dict()
    share = f"{row.proportion:7.2%} {row.samples:7d}"
    lines = [_fit(f"{share}  {found['name']}", _place(found["path"], found["line"]), width)]
    name = found["library_function_name"]
    if name != NOT_FOUND and (found["name"], found["path"]) != (name, found["library_function_path"]):
        place = _place(found["library_function_path"], found["library_function_line"])
        lines.append(_fit(f"{' ' * len(share)}    of {name}", place, width))
    return "\n".join(lines)


def _place(path: str | int, line: str | int) -> str:
    return str(path) if str(line) == "-1" else f"{path}:{line}"


def _counted(samples: int, of: int) -> str:
    return f"{samples / of if of else 0:.2%} ({samples})"


def _fit(left: str, right: str, width: int) -> str:
    """Put both texts on a line; cut the beginning of `right` if they do not fit."""
    columns = width - len(left) - 2
    if len(right) > columns:
        right = "…" + right[len(right) - max(columns, 12) + 1 :]
    return f"{left}  {right}"[:width]
