"""`workshop memory`: where the memory of a training is, what grows, and what could be freed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
from workshop.cli.reported import end_of_broken, of_memory, wanted, write_reports

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def memory(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    seconds: Annotated[float, typer.Option(help="How long to watch.", min=0.1)] = 20.0,
    trials: Annotated[bool, typer.Option(help="Try on copies what would need less.")] = True,
    html: Annotated[
        Path | None, typer.Option(help="Write a page of findings, curve and lines here.", show_default=False)
    ] = None,
    save: SaveOption = None,
    against: AgainstOption = None,
    formats: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the lines that hold the memory of a training.

    It names what is there at the peak, what grows, and what could be freed.

    Example: workshop memory train.py configs/example_config.py

    The script runs unchanged, in this folder, with its arguments, and is ended when its memory has been measured. It
    writes what it always writes. If it runs out of memory meanwhile, the table shows what was held when it happened.
    In place of a script, it reads a snapshot that torch has written (`.pickle`), without running what is in it.
    Options of this command come before the script. Exit codes: 2, there is nothing to measure; 4, what the script does
    cannot be seen; 5, it crashed, or ran out of memory.
    """
    from workshop.cli.memory_text import print_memory, print_memory_changes
    from workshop.judge.verdict import Outcome
    from workshop.memory.memory_change import memory_changes, read_saved_memory
    from workshop.memory.memory_diagnosis import MemoryDiagnosis
    from workshop.memory.memory_run import measure_memory
    from workshop.memory.snapshot_file import is_snapshot, read_snapshot
    from workshop.pages.memory_page import page
    from workshop.runs.script import ScriptError

    refuse_misplaced(context, script, arguments or [])
    before = read_saved_memory(against) if against else None
    reports = wanted(formats, as_json)
    for path in filter(None, (html, save)):
        require_writable(path)
    try:
        if is_snapshot(script):
            found = MemoryDiagnosis(read_snapshot(Path(script)))
        else:
            with progress_line() as show:
                found = MemoryDiagnosis(measure_memory(script, arguments or [], seconds, show, is_module, trials))
    except ScriptError as error:
        raise end_of_broken(script, error, as_json, reports) from None
    name, values = script_name(script, arguments or [], is_module), found.as_dict()
    path_of_script = script_path(script, arguments or [], is_module)
    if html:
        write_file(html, page(name, values, found.sources()))
    if save:
        write_file(save, json.dumps(values))
    changed = memory_changes(before, values) if before else []
    on_stdout = write_reports(reports, lambda: of_memory(name, found), path_of_script)
    if as_json:
        print_json(**values, changes=[asdict(each) for each in changed])
    elif not on_stdout:
        print_memory(name, found)
        print_memory_changes(changed)
    if found.failure or found.measured.crash:
        raise typer.Exit(Outcome.BROKEN.exit_code)
