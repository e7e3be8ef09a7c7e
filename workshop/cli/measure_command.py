"""`workshop measure`: the bottlenecks of a training script."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.asked import Asked
from workshop.cli.options import (
    COMMAND_FOLLOWS,
    INSTRUMENTS,
    AgainstOption,
    FormatOption,
    JsonOption,
    ModuleOption,
    SaveOption,
    ScriptArguments,
    TrainingScriptArgument,
)
from workshop.cli.reported import of_diagnosis
from workshop.errors import EXIT_CRASHED
from workshop.parts import taught_in

if TYPE_CHECKING:
    from workshop.diagnosis.findings import Finding

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def measure(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 20.0,
    headroom: Annotated[bool, typer.Option(help="Try batches from memory, and different numbers of workers.")] = True,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Try all ways to compute, also those that take minutes.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page of findings, steps and lines here.", show_default=False)
    ] = None,
    save: SaveOption = None,
    against: AgainstOption = None,
    formats: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the bottlenecks of any training script.

    It names the line, the cause, and the potential speedup.

    Example: workshop measure train.py configs/example_config.py

    The script runs unchanged, in this folder, with its arguments, and is ended when its steps have been measured. It
    writes what it always writes. At the end it trains on the same few batches over and over, so let it save
    checkpoints elsewhere, or use --no-headroom. To see ranks side by side, the script may be torchrun, with its
    arguments. Options of this command come before the script. Exit codes: 2, there is nothing to measure; 4, what the
    script does cannot be seen; 5, it crashed, and what was measured until then is shown.
    """
    from workshop.cli.measurement_text import print_diagnosis
    from workshop.diagnosis.change import changes, read_saved_times
    from workshop.diagnosis.diagnosis import diagnose
    from workshop.diagnosis.stages import measure as measure_script
    from workshop.pages.measurement_page import page

    given = arguments or []
    asked = Asked(context, script, given, is_module, as_json, html, save, formats)
    before = read_saved_times(against) if against else None
    found = asked.found(
        lambda show: diagnose(measure_script(script, given, seconds, show, is_module, headroom, thorough))
    )
    found = replace(found, findings=[_with_part(each) for each in found.findings])
    values = found.as_dict()
    asked.answer(
        values,
        lambda: print_diagnosis(asked.name, found),
        lambda: of_diagnosis(asked.name, found),
        lambda: page(asked.name, values, found.sources()),
        changes(before, values) if before else [],
    )
    if found.measurement.crash:
        raise typer.Exit(EXIT_CRASHED)


def _with_part(finding: "Finding") -> "Finding":
    """Add the part that teaches how to find and fix this cause, if there is one."""
    part = taught_in(finding.cause)
    return replace(finding, words=f"{finding.words} See {part}.") if part else finding
