"""The commands that work on anybody's script and recordings: parse, call, print."""

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop import record
from workshop.errors import WorkshopError
from workshop.printing import console, filled, print_json, say, write_file

if TYPE_CHECKING:
    from workshop.harness.verdict import Verdict
    from workshop.profiles.hot_spots import Table
    from workshop.profiles.stacks import Recording
    from workshop.profiles.traces import Traces

app = typer.Typer()
app.add_typer(record.app, name="record", help="Record a run with a profiler, without an edit to its code.")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV instead.")]
FileOption = Annotated[
    list[Path] | None,
    typer.Option("--file", help="A recording, or a folder of them; may be said again.", show_default=False),
]
LibraryOption = Annotated[str, typer.Option("--library-name", help="What the paths of your own code contain.")]


@app.command()
def monitor(
    pid: Annotated[
        list[int] | None, typer.Option(help="Of a run; else every training run.", show_default=False)
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two pictures.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch cores, memory, GPUs and every process of a run.

    Start the training in another terminal.

    Example: workshop monitor --once
    """
    import time

    from rich.console import Console

    from workshop import monitor as monitoring

    if as_json:
        watching = monitoring.Watch(pid)
        watching.snapshot()
        time.sleep(interval)
        print_json(**watching.snapshot().as_dict())
    else:
        monitoring.monitor(pid, interval, once, Console(highlight=False))


@app.command(context_settings=record.COMMAND_FOLLOWS)
def measure(
    script: Annotated[str, typer.Argument(help="Any training script.", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its own.", show_default=False)] = None,
    is_module: Annotated[bool, typer.Option("-m", help="It is a module, as in python -m package.train.")] = False,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 20.0,
    headroom: Annotated[bool, typer.Option(help="Measure it with batches from memory, too.")] = True,
    as_json: JsonOption = False,
) -> None:
    """See where the time of a step goes in any script.

    And how much a better data pipeline could gain.

    Example: workshop measure train.py configs/example_config.py

    The script runs unchanged, in this folder, with its arguments, and is ended when its steps have been measured. It
    writes what it always writes; in the end, it trains on the same few batches again and again: let it save its
    checkpoints elsewhere, or say --no-headroom. Options of this command come before the script. Exit codes: 2, there
    is nothing to measure; 5, the script broke.
    """
    from workshop.harness.bench import broken
    from workshop.harness.child import ScriptError
    from workshop.harness.verdict import Outcome
    from workshop.measure import measure as measured
    from workshop.report import print_measurement

    try:
        found = measured(script, arguments or [], seconds, say, is_module, headroom)
    except ScriptError as error:
        if as_json:
            print_json(**broken(script, error).as_dict())
        else:
            print_verdict(broken(script, error))
        raise typer.Exit(Outcome.BROKEN.exit_code) from None
    if as_json:
        print_json(**found.as_dict())
    else:
        print_measurement(script if is_module else Path(script).name, found, console())


@app.command(context_settings={"ignore_unknown_options": True})
def compare(
    old: Annotated[Path, typer.Argument(help="The script that does the right work.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="The one to judge.", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="For both scripts.", show_default=False)] = None,
    target: Annotated[float, typer.Option(help="Asked: so many times as fast.", min=0.01)] = 1.1,
    steps: Annotated[
        int | None, typer.Option(help="Optimizer steps in an epoch; else as the DataLoader says, 50 at most.", min=1)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Judge two training scripts of your own.

    Does the new one do the same work, and how much faster?

    Example: workshop compare old.py new.py config.py --device cpu

    Both run with the same arguments, in this folder, and end when the judge has seen enough. Options of this command
    come before the scripts. Exit codes as of check.
    """
    from workshop import judge

    verdict = judge.compare(old, new, arguments or [], target, steps, say)
    if as_json:
        print_json(**verdict.as_dict())
    else:
        print_verdict(verdict)
    raise typer.Exit(verdict.outcome.exit_code)


@app.command(context_settings=record.COMMAND_FOLLOWS | {"help_option_names": []})
def torchrun(
    arguments: Annotated[list[str] | None, typer.Argument(help="As of torchrun.", show_default=False)] = None,
) -> None:
    """Run torchrun, with its errors in one line.

    If a rank fails, it says which one and how, and leaves nothing running.

    Example: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py

    Exit code: that of the rank which failed first.
    """
    from workshop import torchrun as ranks

    if not arguments:
        raise WorkshopError("name a script: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py")
    code, why = ranks.run(arguments)
    if why:
        say(f"\n{why}")  # below the progress bar that it has stopped
    raise typer.Exit(code)


@app.command("py-spy-report")
def py_spy_report(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", show_default=False)] = None,
    file: FileOption = None,
    library: LibraryOption = "train.py",
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
    from workshop import hot_spot_tables as tables
    from workshop.profiles.hot_spots import COLUMNS

    most = _number_of_rows(rows)
    _one_of(as_json, as_csv)
    if diff:
        _report_changes(*diff, total, most, as_json, as_csv)
        return
    recordings, recording = _recordings([*(files or []), *(file or [])], by)
    found = {
        name: _table(each, library, aggregate, total, own, modules, recording) for name, each in recordings.items()
    }
    if as_json or as_csv:
        flat = []
        for name, table in found.items():
            flat += [{**({by: name} if by else {}), **row.as_dict()} for row in table.rows[:most]]
        tables.print_json(flat) if as_json else tables.print_csv(flat, [*([by] if by else []), *COLUMNS, "samples"])
    else:
        for name, table in found.items():
            if by and not table.samples:
                continue  # a process that never ran a function, such as Python's resource tracker
            if by:
                share = table.samples / recording.samples
                print(f"{name}: {table.samples} samples, {share:.1%} of all\n")
            shown = table.rows[:most]
            width = shutil.get_terminal_size().columns
            print(
                tables.in_terminal(shown, width) if sys.stdout.isatty() else tables.wide(shown),
                end="\n\n"[: 1 + bool(by)],
            )
    _say_notes(recording, found, by, library)


@app.command()
def flamegraph(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", show_default=False)] = None,
    file: FileOption = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Ends in .html, .svg or .speedscope.json.")] = Path(
        "flamegraph.html"
    ),
    library: LibraryOption = "train.py",
    diff: Annotated[
        Path | None,
        typer.Option(help="A recording to compare with.", metavar="BEFORE", show_default=False),
    ] = None,
) -> None:
    """Draw a py-spy recording as a flame graph.

    It is one file, which any browser opens, without a network.

    Example: workshop flamegraph --file py-spy-outputs/profile.raw

    Click a frame to zoom into it, Esc to get back; / searches, the arrow keys walk, Enter zooms. With --diff, red is
    what got slower since BEFORE, and blue what got faster.
    """
    from workshop import flamegraph as drawing

    _, recording = _recordings([*(files or []), *(file or [])], None)
    before = _recordings([diff], None)[1] if diff else None
    drawing.write(output, recording, before, library)
    for note in [*recording.damage, *(before.damage if before else [])]:
        say(note)
    print(f"{output} shows {recording.samples} samples. Open it in a browser.")


@app.command()
def trace(
    paths: Annotated[list[Path], typer.Argument(help="Traces, or folders of them: one of each rank.")],
    only: Annotated[
        str | None,
        typer.Option(help="temporal, idle, overlap, launch, kernels, operators, steps or memory.", show_default=False),
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
    from workshop import trace_tables as tables
    from workshop.hot_spot_tables import print_csv
    from workshop.profiles.traces import findings
    from workshop.profiles.traces import hta as compatible

    if only is not None and only not in tables.ANALYSES:
        raise typer.BadParameter(f"is one of {', '.join(tables.ANALYSES)}", param_hint="--only")
    if hta and not as_json:
        raise typer.BadParameter("goes with --json", param_hint="--hta-compat")
    if as_csv and only is None:
        raise typer.BadParameter("prints one table: name it with --only", param_hint="--csv")
    if html and (only or as_json or as_csv):
        raise typer.BadParameter("draws everything, and goes with no other choice", param_hint="--html")
    _one_of(as_json, as_csv)
    traces = _traces(paths)
    if html:
        from workshop.timeline.page import page

        write_file(html, page(traces, tables.tables(traces), findings.findings(traces)))
        print(f"{html} shows {len(traces)} trace{'s' * (len(traces) != 1)}. Open it in a browser.")
    elif hta:
        print(json.dumps(compatible.analyses(compatible.by_rank(traces)), indent=2))
    elif as_csv and only:
        rows = tables.tables(traces, only)[only]
        print_csv(rows, list(dict.fromkeys(key for row in rows for key in row)))
    else:
        found, costs = tables.tables(traces, only), [] if only else findings.findings(traces)
        if as_json:
            costs_too = {} if only else {"findings": [asdict(each) for each in costs]}
            print_json(traces=tables.trace_rows(traces), **found, **costs_too)
        else:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            print(tables.as_text(found, costs, len(traces) > 1, width))
    for note in traces.notes:
        say(note)


def _one_of(as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise typer.BadParameter("and --csv exclude each other", param_hint="--json")


def _traces(paths: list[Path]) -> "Traces":
    from tqdm import tqdm

    from workshop.profiles.traces import ranks

    whole = ranks.sizes(paths)
    with tqdm(total=whole, unit="B", unit_scale=True, desc="Reading", leave=False, disable=None, delay=1) as bar:
        return ranks.load(paths, bar.update)


def _recordings(paths: list[Path], by: str | None) -> "tuple[dict[str, Recording], Recording]":
    """One recording for each table, and all of them."""
    from workshop.profiles import identity, stacks

    if not paths:
        raise WorkshopError("name a recording: --file FILE")
    if by not in (None, "process", "thread", "rank"):
        raise typer.BadParameter("is process, thread or rank", param_hint="--by")
    recording = stacks.read(*paths)
    return identity.split(recording, by) if by else {"": recording}, recording


def _table(
    recording: "Recording", library: str, aggregate: bool, total: bool, own: bool, modules: bool, whole: "Recording"
) -> "Table":
    from workshop.profiles import hot_spots, own_code

    if own:  # the body of the script is one's own code, too
        return hot_spots.own_leaves(recording, library, own_code.Origins(whole, library).is_own, modules=True)
    if total:
        return hot_spots.totals(recording, library, modules)
    return hot_spots.leaves(recording, library, aggregate, modules)


def _report_changes(before: Path, after: Path, total: bool, most: int | None, as_json: bool, as_csv: bool) -> None:
    from workshop import hot_spot_tables as tables
    from workshop.profiles import hot_spots, stacks

    old, new = stacks.read(before), stacks.read(after)
    changes = hot_spots.changes(old, new, total)[:most]
    flat = [
        {"change": each.more, "before": each.before, "after": each.after, **each.function._asdict()} for each in changes
    ]
    if as_json:
        tables.print_json(flat)
    elif as_csv:
        tables.print_csv(flat, ["change", "before", "after", "name", "path"])
    else:
        print(tables.changed(changes, old.samples, new.samples))
        say(filled(f"{old.samples} samples before, {new.samples} after. They are time only if both did the same work."))


def _say_notes(recording: "Recording", tables: "dict[str, Table]", by: str | None, library: str) -> None:
    """On stderr: what is not in the tables, and what might mislead in them."""
    from workshop.hot_spot_tables import left_out
    from workshop.profiles import identity

    for note in recording.damage:
        say(note)
    if note := left_out(list(tables.values())):
        say(filled(note))
    if not any(library in frame.path for stack in recording.stacks for frame in stack.frames):
        say(filled(f"no path contains {library}, so nothing counts as your own code; name it with --library-name"))
    if not by and (of_workers := identity.workers(recording)):
        samples = sum(stack.samples for stack in recording.stacks if identity.who(stack) in of_workers)
        workers = f"{len(of_workers)} DataLoader worker{'s' * (len(of_workers) > 1)}"
        say(filled(f"{samples} of {recording.samples} samples are of {workers}; --by process tells them apart"))


def _number_of_rows(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter("is a number from 1, or all", param_hint="--num-rows")
    return int(text)


def print_verdict(verdict: "Verdict") -> None:
    """For a person, on stdout."""
    from workshop.report import print_verdict as report

    report(verdict, console())
