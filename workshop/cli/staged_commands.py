"""The commands that lead a script through stages: `workshop measure`, `workshop memory` and `workshop tune`."""

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.asked import Asked
from workshop.cli.options import (
    COMMAND_FOLLOWS,
    INSTRUMENTS,
    AgainstOption,
    CellsOption,
    FormatOption,
    JsonOption,
    ModuleOption,
    SaveOption,
    ScriptArguments,
    TrainingScriptArgument,
    budget_of,
    bytes_of,
)
from workshop.cli.reported import of_diagnosis, of_memory
from workshop.errors import EXIT_CRASHED, EXIT_INTERRUPTED, EXIT_USAGE
from workshop.parts import taught_in

if TYPE_CHECKING:
    from workshop.diagnosis.findings import Finding
    from workshop.runs.script import Say
    from workshop.tuning.tuning_result import Tuning

app = typer.Typer()

DEFAULT_BUDGET = "2m"


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def measure(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    cells: CellsOption = None,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 20.0,
    headroom: Annotated[bool, typer.Option(help="Try batches from memory, and different numbers of workers.")] = True,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Try all ways to compute, also those that take minutes.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page of findings, steps and lines here.")] = None,
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

    asked = Asked(context, script, arguments or [], is_module, as_json, html, save, formats)
    before = read_saved_times(against) if against else None
    found = asked.found(
        lambda show: diagnose(measure_script(script, asked.arguments, seconds, show, is_module, headroom, thorough))
    )
    found = replace(found, findings=[_with_part(each) for each in found.findings])
    values = found.as_dict()
    asked.answer(
        values,
        lambda: print_diagnosis(asked.name, found),
        lambda: of_diagnosis(asked.name, found),
        lambda: page(asked.name, values, found.sources()),
        changes(before, values) if before else [],
        EXIT_CRASHED if found.measurement.crash else 0,
    )


def _with_part(finding: "Finding") -> "Finding":
    """Add the part that teaches how to find and fix this cause, if there is one."""
    part = taught_in(finding.cause)
    return replace(finding, words=f"{finding.words} See {part}.") if part else finding


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def memory(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    cells: CellsOption = None,
    seconds: Annotated[float, typer.Option(help="How long to watch.", min=0.1)] = 20.0,
    trials: Annotated[bool, typer.Option(help="Try on copies what would need less.")] = True,
    html: Annotated[Path | None, typer.Option(help="Write a page of findings, curve and lines here.")] = None,
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

    asked = Asked(context, script, arguments or [], is_module, as_json, html, save, formats)
    before = read_saved_memory(against) if against else None
    if is_snapshot(script):
        found = MemoryDiagnosis(read_snapshot(Path(script)))
    else:
        found = asked.found(
            lambda show: MemoryDiagnosis(measure_memory(script, asked.arguments, seconds, show, is_module, trials))
        )
    values = found.as_dict()
    asked.answer(
        values,
        lambda: print_memory(asked.name, found),
        lambda: of_memory(asked.name, found),
        lambda: page(asked.name, values, found.sources()),
        memory_changes(before, values) if before else [],
        EXIT_CRASHED if found.failure or found.measured.crash else 0,
    )


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def tune(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    cells: CellsOption = None,
    budget: Annotated[
        str, typer.Option(help="The time for the search and the proof, such as 90 or 5m.")
    ] = DEFAULT_BUDGET,
    memory: Annotated[str | None, typer.Option(help="What all processes may use, such as 16G.", metavar="SIZE")] = None,
    write: Annotated[bool, typer.Option("--write", help="Edit the file, and keep a copy of it.")] = False,
    proof: Annotated[bool, typer.Option(help="Have the edited script judged, as by compare.")] = True,
    html: Annotated[Path | None, typer.Option(help="Write a page with the curve here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best number of workers, measured.

    It tries settings of the DataLoader, and shows the edit.

    Example: workshop tune train.py configs/example_config.py

    The script runs in this folder, with its arguments, and is ended when the settings have been tried. It writes what
    it always writes, and trains on the same few batches for a while, so let it save checkpoints elsewhere. Then the
    edited script is judged against it. Options of this command come before the script. Exit codes: 0, there is a
    setting to take, or none is worth an edit; 2, there is nothing to tune; 4, the noise or the time allows no answer,
    or --write has edited nothing, as the edit is not proven to do the same work or a library has the line; 5, the
    script crashed; 130, Ctrl-C.
    """
    from workshop.cli.tuning_text import print_tuning
    from workshop.course.scripts import replace_content
    from workshop.pages.tuning_page import page
    from workshop.tuning.edit_proof import why_not_written
    from workshop.tuning.tuning_result import Advice

    asked = Asked(context, script, arguments or [], is_module, as_json, html)
    budget_s, memory_bytes = budget_of(budget), bytes_of(memory, "--memory") if memory else None
    found = asked.found(lambda show: _found(asked, budget_s, memory_bytes, proof, show))
    is_taken, edit = found.advice is Advice.TAKE, found.edit
    why_not = (why_not_written(found, proof) if edit else found.why_no_edit) if is_taken else ""
    kept = replace_content(edit.file, edit.content) if write and is_taken and edit and not why_not else None
    again, refused = _again(asked, unproven=bool(why_not) and not found.interrupted), why_not if write else ""
    asked.answer(
        found.as_dict(),
        lambda: print_tuning(asked.name, found, kept, again, refused),
        page=lambda: page(asked.name, found.as_dict()),
        exit_code=_exit_code(found, refused),
        kept=kept and str(kept),
        why_not_written=refused,
    )


def _found(asked: Asked, budget_s: float, memory_bytes: float | None, proof: bool, show: "Say") -> "Tuning":
    """Search, and have what was found proven, within a budget: half of it is for the proof."""
    from workshop.tuning.edit_proof import with_proof
    from workshop.tuning.tuned_run import tune as tune_script

    until_s = time.monotonic() + budget_s
    seconds = budget_s / 2 if proof else budget_s
    script, arguments, is_module = asked.script, asked.arguments, asked.is_module
    found = tune_script(script, arguments, seconds, show, is_module, memory_bytes)
    return with_proof(found, script, arguments, is_module, until_s - time.monotonic(), show) if proof else found


def _again(asked: Asked, unproven: bool) -> str:
    """The command that writes the edit within the same limits, also if it is not proven."""
    budget, memory, cells = (asked.context.params[name] for name in ("budget", "memory", "cells"))
    limits = [*["--budget", budget] * (budget != DEFAULT_BUDGET), *(["--memory", memory] if memory else [])]
    limits += ["--cells", cells] if cells else []
    options = [*limits, *["--no-proof"] * unproven, "--write", *["-m"] * asked.is_module]
    return shlex.join(["workshop", "tune", *options, asked.script, *asked.arguments])


def _exit_code(found: "Tuning", refused: str) -> int:
    from workshop.judge.verdict import Outcome
    from workshop.tuning.tuning_result import Advice

    has_no_setting = found.advice in (Advice.NOT_TUNED, Advice.UNDECIDED)
    if refused and found.interrupted:
        return EXIT_INTERRUPTED
    if found.crash and has_no_setting:
        return EXIT_CRASHED
    if found.advice is Advice.NOT_TUNED:
        return EXIT_USAGE
    return Outcome.UNDECIDED.exit_code if refused or has_no_setting else 0
