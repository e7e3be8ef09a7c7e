"""The command `workshop trace`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import INSTRUMENTS, CsvOption, JsonOption, exclude_each_other
from workshop.cli.output import print_csv, print_json, say, terminal_width, write_file
from workshop.errors import WorkshopError

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
            help="temporal, idle, overlap, launch, kernels, operators, steps, memory, queue, bandwidth or annotations.",
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
) -> None:
    """See in traces what each device did, and what it cost.

    Traces of torch.profiler: computing, communicating, copying, idle, and why.

    Example: workshop trace prof

    Reads what torch.profiler exports, also compressed; of a damaged trace, what can be read. All times are exact to the
    nanosecond. With --hta-compat they are rounded as HolisticTraceAnalysis rounds them, and its other errors are kept,
    too.
    """
    from tqdm import tqdm

    from workshop.cli import trace_tables
    from workshop.profiles.traces import hta as compatible
    from workshop.profiles.traces import ranks
    from workshop.profiles.traces.findings import findings
    from workshop.profiles.traces.tables import ANALYSES, tables
    from workshop.recording.torch_profiler import newest

    if only is not None and only not in ANALYSES:
        raise typer.BadParameter(f"is one of {', '.join(ANALYSES)}", param_hint="--only")
    if hta and not as_json:
        raise typer.BadParameter("goes with --json", param_hint="--hta-compat")
    if as_csv and only is None:
        raise typer.BadParameter("prints one table: name it with --only", param_hint="--csv")
    if html and (only or as_json or as_csv):
        raise typer.BadParameter("draws everything, and goes with no other choice", param_hint="--html")
    exclude_each_other(as_json, as_csv)
    if not paths:
        paths = [newest(Path("prof"))]
        if not paths[0].is_dir():
            raise WorkshopError("there is no recording here: workshop record torch -- SCRIPT makes one")
        say(f"reading {paths[0]}, the newest recording here")
    with tqdm(
        total=ranks.sizes(paths), unit="B", unit_scale=True, desc="Reading", leave=False, disable=None, delay=1
    ) as bar:
        traces = ranks.load(paths, bar.update)
    if hta:
        print(json.dumps(compatible.analyses(compatible.by_rank(traces)), indent=2))
    elif as_csv and only:
        rows = tables(traces, only)[only]
        print_csv(rows, list(dict.fromkeys(key for row in rows for key in row)))
    else:
        found, costs = tables(traces, only), [] if only else findings(traces)
        if html:
            from workshop.timeline.page import page

            write_file(html, page(traces, found, costs))
            print(f"{html} shows {len(traces)} trace{'s' * (len(traces) != 1)}. Open it in a browser.")
        elif as_json:
            costs_too = {} if only else {"findings": [asdict(each) for each in costs]}
            print_json(traces=trace_tables.trace_rows(traces), **found, **costs_too)
        else:
            print(trace_tables.as_text(found, costs, len(traces) > 1, terminal_width()))
    for note in traces.notes:
        say(note)
    for folder in filter(Path.is_dir, paths):
        if (newer := newest(folder)) not in paths:
            say(f"{newer} is a newer recording than {folder}: workshop trace {newer}")
