"""`workshop measure`: the bottlenecks of a training script."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    refuse_misplaced,
    script_name,
    script_path,
)
from workshop.cli.output import print_json, progress_line, require_writable, write_file
from workshop.cli.reported import end_of_broken, of_diagnosis, wanted, write_reports
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
    from workshop.cli.measurement_text import print_changes, print_diagnosis
    from workshop.diagnosis.change import changes, read_saved
    from workshop.diagnosis.diagnosis import diagnose
    from workshop.diagnosis.stages import measure as measure_script
    from workshop.pages.measurement_page import page
    from workshop.runs.script import ScriptError

    refuse_misplaced(context, script, arguments or [])
    before = read_saved(against) if against else None
    reports = wanted(formats, as_json)
    for path in filter(None, (html, save)):
        require_writable(path)
    try:
        with progress_line() as show:
            found = diagnose(measure_script(script, arguments or [], seconds, show, is_module, headroom, thorough))
    except ScriptError as error:
        raise end_of_broken(script, error, as_json, reports) from None
    found = replace(found, findings=[_with_part(each) for each in found.findings])
    name, values = script_name(script, arguments or [], is_module), found.as_dict()
    path_of_script = script_path(script, arguments or [], is_module)
    if html:
        write_file(html, page(name, values, found.sources()))
    if save:
        write_file(save, json.dumps(values))
    changed = changes(before, values) if before else []
    on_stdout = write_reports(reports, lambda: of_diagnosis(name, found), path_of_script)
    if as_json:
        print_json(**values, changes=[asdict(each) for each in changed])
    elif not on_stdout:
        print_diagnosis(name, found)
        print_changes(changed)
    if found.measurement.crash:
        raise typer.Exit(EXIT_CRASHED)


def _with_part(finding: "Finding") -> "Finding":
    """Add the part that teaches how to find and fix this cause, if there is one."""
    part = taught_in(finding.cause)
    return replace(finding, words=f"{finding.words} See {part}.") if part else finding
