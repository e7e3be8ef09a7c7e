"""`workshop tune`: the settings of a DataLoader, searched for and proven."""

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.asked import Asked
from workshop.cli.options import (
    COMMAND_FOLLOWS,
    INSTRUMENTS,
    JsonOption,
    ModuleOption,
    ScriptArguments,
    TrainingScriptArgument,
    budget_of,
)
from workshop.errors import EXIT_CRASHED, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from workshop.runs.script import Say
    from workshop.tuning.tuning_result import Tuning

app = typer.Typer()

DEFAULT_BUDGET = "2m"
SEARCH_SHARE = 0.5
"""A share of the budget, at most, that the search takes if the setting found is to be proven, too."""

UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""The bytes of a kilobyte and of larger units, by their first letter."""


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def tune(
    context: typer.Context,
    script: TrainingScriptArgument,
    arguments: ScriptArguments = None,
    is_module: ModuleOption = False,
    budget: Annotated[
        str, typer.Option(help="The time for the search and the proof, such as 90 or 5m.")
    ] = DEFAULT_BUDGET,
    memory: Annotated[
        str | None,
        typer.Option(help="What all processes may use, such as 16G.", metavar="SIZE", show_default=False),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Edit the file, and keep a copy of it.")] = False,
    proof: Annotated[bool, typer.Option(help="Have the edited script judged, as by compare.")] = True,
    html: Annotated[Path | None, typer.Option(help="Write a page with the curve here.", show_default=False)] = None,
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
    from workshop.judge.verdict import Outcome
    from workshop.pages.tuning_page import page
    from workshop.tuning.edit_proof import why_not_written
    from workshop.tuning.tuning_result import Advice

    asked = Asked(context, script, arguments or [], is_module, as_json, html)
    memory_bytes, budget_s = _bytes(memory) if memory else None, budget_of(budget)
    found = asked.found(lambda show: _found(asked, budget_s, memory_bytes, proof, show))
    kept, edit = None, found.edit if found.advice is Advice.TAKE else None
    why_not = why_not_written(found, proof) if edit else ""
    unedited = found.why_no_edit if found.advice is Advice.TAKE and not edit else ""
    refused = (why_not or unedited) if write else ""
    if write and edit and not refused:
        kept = replace_content(edit.path, edit.content)
    limits = [*(["--budget", budget] if budget != DEFAULT_BUDGET else []), *(["--memory", memory] if memory else [])]
    again = _again(asked, limits, unproven=bool(why_not) and not found.interrupted)
    asked.answer(
        found.as_dict(),
        lambda: print_tuning(asked.name, found, kept, again, refused),
        page=lambda: page(asked.name, found.as_dict()),
        kept=kept and str(kept),
        why_not_written=refused,
    )
    undecided = Outcome.UNDECIDED.exit_code
    if refused:
        raise typer.Exit(EXIT_INTERRUPTED if found.interrupted else undecided)
    if found.crash and found.advice in (Advice.NOT_TUNED, Advice.UNDECIDED):
        raise typer.Exit(EXIT_CRASHED)
    raise typer.Exit({Advice.NOT_TUNED: 2, Advice.UNDECIDED: undecided}.get(found.advice, 0))


def _found(asked: Asked, budget_s: float, memory_bytes: float | None, proof: bool, show: "Say") -> "Tuning":
    """Search, and have what was found proven, within a budget."""
    from workshop.tuning.edit_proof import with_proof
    from workshop.tuning.tuned_run import tune as tune_script

    until_s = time.monotonic() + budget_s
    seconds = budget_s * (SEARCH_SHARE if proof else 1.0)
    script, arguments, is_module = asked.script, asked.arguments, asked.is_module
    found = tune_script(script, arguments, seconds, show, is_module, memory_bytes)
    return with_proof(found, script, arguments, is_module, until_s - time.monotonic(), show) if proof else found


def _again(asked: Asked, limits: list[str], unproven: bool) -> str:
    """The command that writes the edit within the same limits, also if it is not proven."""
    options = [*limits, *["--no-proof"] * unproven, "--write", *["-m"] * asked.is_module]
    return shlex.join(["workshop", "tune", *options, asked.script, *asked.arguments])


def _bytes(text: str) -> float:
    """The number of bytes of a text such as "16G".

    Raises:
        BadParameter: it is no size.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not found or not float(found[1]):
        raise typer.BadParameter(f"{text} is no size; write 16G or 800M", param_hint="--memory")
    return float(found[1]) * UNITS[found[2].upper()]
