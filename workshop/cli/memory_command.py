"""`workshop memory`: where the memory of a training is, what grows, and what could be freed."""

from pathlib import Path
from typing import Annotated

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
from workshop.cli.reported import of_memory
from workshop.errors import EXIT_CRASHED

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
    from workshop.cli.memory_text import print_memory
    from workshop.memory.memory_change import memory_changes, read_saved_memory
    from workshop.memory.memory_diagnosis import MemoryDiagnosis
    from workshop.memory.memory_run import measure_memory
    from workshop.memory.snapshot_file import is_snapshot, read_snapshot
    from workshop.pages.memory_page import page

    given = arguments or []
    asked = Asked(context, script, given, is_module, as_json, html, save, formats)
    before = read_saved_memory(against) if against else None
    if is_snapshot(script):
        found = MemoryDiagnosis(read_snapshot(Path(script)))
    else:
        found = asked.found(
            lambda show: MemoryDiagnosis(measure_memory(script, given, seconds, show, is_module, trials))
        )
    values = found.as_dict()
    asked.answer(
        values,
        lambda: print_memory(asked.name, found),
        lambda: of_memory(asked.name, found),
        lambda: page(asked.name, values, found.sources()),
        memory_changes(before, values) if before else [],
    )
    if found.failure or found.measured.crash:
        raise typer.Exit(EXIT_CRASHED)
