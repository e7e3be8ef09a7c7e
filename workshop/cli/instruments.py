"""The instruments that run or watch training scripts: `workshop measure`, `workshop compare` and `workshop monitor`."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.options import COMMAND_FOLLOWS, INSTRUMENTS, JsonOption
from workshop.cli.output import print_above, print_json, progress_line, say, write_file
from workshop.errors import WorkshopError
from workshop.parts import taught_in

if TYPE_CHECKING:
    from workshop.diagnosis.findings import Finding

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def measure(
    script: Annotated[str, typer.Argument(help="Any training script, or torchrun.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments passed on to the script.", show_default=False)
    ] = None,
    is_module: Annotated[bool, typer.Option("-m", help="Run the script as a module, like python -m.")] = False,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 20.0,
    headroom: Annotated[bool, typer.Option(help="Try batches from memory, and different numbers of workers.")] = True,
    html: Annotated[
        Path | None, typer.Option(help="Write a page of findings, steps and lines here.", show_default=False)
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Keep the measurement in this file, to compare with.", show_default=False)
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--diff", "--against", help="What changed since this measurement?", metavar="BEFORE", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the bottlenecks of any training script.

    It names the line, the cause, and the potential speedup.

    Example: workshop measure train.py configs/example_config.py

    The script runs unchanged, in this folder, with its arguments, and is ended when its steps have been measured. It
    writes what it always writes. At the end it trains on the same few batches over and over, so let it save
    checkpoints elsewhere, or use --no-headroom. To see ranks side by side, the script may be torchrun, with its
    arguments. Options of this command come before the script. Exit codes: 2, there is nothing to measure; 5, the
    script crashed.
    """
    from workshop.cli.measurement_text import print_changes, print_diagnosis
    from workshop.cli.result_text import print_verdict
    from workshop.diagnosis.change import changes, read_saved
    from workshop.diagnosis.diagnosis import diagnose
    from workshop.diagnosis.stages import measure as measure_script
    from workshop.judge.verdict import Outcome, broken
    from workshop.pages.measurement_page import page
    from workshop.processes.script import ScriptError

    for option in {"--save", "--diff", "--html", "--seconds", "--no-headroom"}.intersection(arguments or []):
        say(f"{option} comes after {script}, so the script gets it; put options of this command before {script}")
    before = read_saved(against) if against else None
    for path in filter(None, (html, save)):
        write_file(path, "")  # fail now, not after minutes of measuring
    try:
        with progress_line() as show:
            found = diagnose(measure_script(script, arguments or [], seconds, show, is_module, headroom))
    except ScriptError as error:
        verdict = broken(script, error)
        print_json(**verdict.as_dict()) if as_json else print_verdict(verdict)
        raise typer.Exit(Outcome.BROKEN.exit_code) from None
    found = replace(found, findings=[_with_part(each) for each in found.findings])
    name, values = _name(script, arguments or [], is_module), found.as_dict()
    if html:
        write_file(html, page(name, values, found.sources()))
    if save:
        write_file(save, json.dumps(values))
    changed = changes(before, values) if before else []
    if as_json:
        print_json(**values, changes=[asdict(each) for each in changed])
    else:
        print_diagnosis(name, found)
        print_changes(changed)


def _with_part(finding: "Finding") -> "Finding":
    """Add the part that teaches how to find and fix this cause, if there is one."""
    part = taught_in(finding.cause)
    return replace(finding, words=f"{finding.words} See {part}.") if part else finding


def _name(script: str, arguments: list[str], is_module: bool) -> str:
    """The name of the measured script; under torchrun, of the script that it starts."""
    started = [each for each in arguments if each.endswith(".py")]
    return Path(started[0]).name if script == "torchrun" and started else script if is_module else Path(script).name


@app.command(context_settings={"ignore_unknown_options": True}, rich_help_panel=INSTRUMENTS)
def compare(
    old: Annotated[Path, typer.Argument(help="The script that does the right work.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="The script to judge.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments passed on to both scripts.", show_default=False)
    ] = None,
    target: Annotated[float, typer.Option(help="The speedup that NEW must reach.", min=0.01)] = 1.1,
    steps: Annotated[
        int | None,
        typer.Option(help="Optimizer steps in an epoch; by default the DataLoader's length, 50 at most.", min=1),
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds until the verdict; long epochs are cut.", min=10.0)] = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Judge two training scripts of your own.

    Does the new one do the same work, and how much faster?

    Example: workshop compare old.py new.py config.py --device cpu

    Both run with the same arguments, in this folder, and end when the judge has seen enough, or the budget is spent.
    Options of this command come before the scripts. Exit codes are those of check.
    """
    from workshop.cli.result_text import print_verdict
    from workshop.judge.bench import Bench
    from workshop.judge.contest import Contest
    from workshop.judge.time_plan import MAX_EPOCHS
    from workshop.judge.verdict import broken
    from workshop.processes.script import ScriptError

    for script in (old, new):
        if not script.is_file():
            raise WorkshopError(f"there is no file {script.absolute()}; name two training scripts")
    contest = Contest(
        subject=new.name,
        original=old.absolute(),
        candidate=new.absolute(),
        original_name=old.name,
        target=target,
        command=lambda script, _folder, _seed: [str(script), *(arguments or [])],
        options={"work_folder": Path.cwd(), "epoch_steps": steps, "max_epoch_s": budget / MAX_EPOCHS},
        budget_s=budget,
    )
    try:
        with progress_line() as show, Bench(contest, show, lambda text: print_above(text, sys.stderr)) as bench:
            verdict = replace(bench.judge(), machine=bench.load.end())
    except ScriptError as error:
        verdict = broken(new.name, error)
    print_json(**verdict.as_dict()) if as_json else print_verdict(verdict)
    raise typer.Exit(verdict.outcome.exit_code)


@app.command(rich_help_panel=INSTRUMENTS)
def monitor(
    pid: Annotated[
        list[int] | None, typer.Option(help="Process to watch; by default every training run.", show_default=False)
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch cores, memory, GPUs and every process of a run.

    Start the training in another terminal. Press q to leave; averages are then printed.

    Example: workshop monitor --once
    """
    from rich.console import Console

    from workshop.cli.monitor_screen import first_rates, show
    from workshop.processes.snapshot import Watch

    if as_json:
        print_json(**first_rates(Watch(pid), interval).as_dict())
    else:
        show(Watch(pid), interval, once, Console(highlight=False))
