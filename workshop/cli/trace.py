"""The command `workshop trace`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.options import INSTRUMENTS, CsvOption, JsonOption, exclude_each_other
from workshop.cli.output import print_csv, print_json, say, terminal_width, write_file
from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.profiles.traces import Traces

app = typer.Typer()


@app.command(rich_help_panel=INSTRUMENTS)
def trace(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Traces of all ranks, or their folder; by default the newest of prof, prof-2, ...", show_default=False
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="temporal, idle, overlap, launch, kernels, operators, steps, path, annotations, queue, memory, "
            "bandwidth or allocations; or a table that comes with one of them: types, stragglers, path_operators, "
            "peaks or held.",
            show_default=False,
        ),
    ] = None,
    hta: Annotated[
        bool, typer.Option("--hta-compat", help="With --json: the numbers of HolisticTraceAnalysis.")
    ] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with a timeline there.", metavar="FILE", show_default=False)
    ] = None,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="BEFORE AFTER: what changed; --only phases, operators, kernels, annotations or streams."
        ),
    ] = False,
) -> None:
    """See in traces what each device did, and what it cost.

    Traces of torch.profiler: computing, communicating, copying, idle, and why.

    Example: workshop trace prof

    Reads traces of torch.profiler, gzipped or not, and SQLite exports of nsys; a damaged trace is read as far as
    possible. All times are exact to the nanosecond. With --hta-compat the numbers are those of HolisticTraceAnalysis,
    with its rounding and its known errors. With --diff it says what changed from one run to another, and what of that
    is noise.
    """
    from workshop.cli.trace_files import read_traces
    from workshop.recording.output_paths import newest

    exclude_each_other(json=as_json, csv=as_csv)
    if as_csv and only is None:
        raise typer.BadParameter("prints one table: name it with --only", param_hint="--csv")
    if html and (only or as_json or as_csv):
        raise typer.BadParameter("draws everything, and goes with no other choice but --diff", param_hint="--html")
    if diff:
        paths = paths or []
        _diff(paths, only, hta, as_json, as_csv, html)
    else:
        _check(only, hta, as_json)
        paths = paths or [_newest()]
        _print(read_traces(paths), only, hta, as_json, as_csv, html)
    for folder in filter(Path.is_dir, paths):
        if (newer := newest(folder)) not in paths:
            say(f"{newer} is a newer recording than {folder}: workshop trace {newer}")


def _diff(paths: list[Path], only: str | None, hta: bool, as_json: bool, as_csv: bool, html: Path | None) -> None:
    from workshop.cli.trace_difference import print_difference
    from workshop.profiles.traces.comparison.step_times import TABLES

    if len(paths) != 2:
        raise typer.BadParameter("takes two traces, or two folders of them: BEFORE AFTER", param_hint="--diff")
    if only is not None and only not in TABLES:
        raise typer.BadParameter(f"is one of {', '.join(TABLES)} with --diff", param_hint="--only")
    if hta:
        raise typer.BadParameter("does not go with --diff", param_hint="--hta-compat")
    before, after = paths
    print_difference(before, after, only, as_json, as_csv, html, terminal_width())


def _check(only: str | None, hta: bool, as_json: bool) -> None:
    from workshop.profiles.traces.tables import TABLES

    if only is not None and only not in TABLES:
        raise typer.BadParameter(f"is one of {', '.join(TABLES)}", param_hint="--only")
    if hta and (only or not as_json):
        raise typer.BadParameter("goes with --json, and has all tables", param_hint="--hta-compat")


def _newest() -> Path:
    from workshop.recording.output_paths import newest

    found = newest(Path("prof"))
    if not found.is_dir():
        raise WorkshopError("there is no recording here: workshop record torch -- SCRIPT makes one")
    say(f"reading {found}, the newest recording here")
    return found


def _print(traces: "Traces", only: str | None, hta: bool, as_json: bool, as_csv: bool, html: Path | None) -> None:
    from workshop.cli import trace_tables
    from workshop.profiles.traces.findings import findings
    from workshop.profiles.traces.tables import tables

    if hta:
        from workshop.profiles.traces.hta import rounded as compatible

        print(json.dumps(compatible.analyses(compatible.by_rank(traces)), indent=2))
    elif as_csv and only:
        rows = tables(traces, only)[only]
        if rows:
            print_csv(rows, list(dict.fromkeys(key for row in rows for key in row)))
        else:
            say(trace_tables.nothing(only))
    else:
        found, costs = tables(traces, only), [] if only else findings(traces)
        if html:
            from workshop.pages.trace_page import page

            write_file(html, page(traces, found, costs))
            print(f"{html} shows {len(traces)} trace{'s' * (len(traces) != 1)}. Open it in a browser.")
        elif as_json:
            costs_too = {} if only else {"findings": [asdict(each) for each in costs]}
            print_json(traces=trace_tables.trace_rows(traces), **found, **costs_too)
        else:
            print(trace_tables.as_text(found, costs, len(traces) > 1, terminal_width()))
    for note in traces.notes:
        say(note)
