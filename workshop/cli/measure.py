"""The command `workshop measure`."""

from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import COMMAND_FOLLOWS, INSTRUMENTS, JsonOption
from workshop.cli.output import print_json, say

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def measure(
    script: Annotated[str, typer.Argument(help="Any training script.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments passed on to the script.", show_default=False)
    ] = None,
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
    from workshop.cli.measurement_text import print_measurement
    from workshop.cli.verdict_text import print_verdict
    from workshop.diagnosis import measurement
    from workshop.judge.verdict import Outcome, broken
    from workshop.processes.script import ScriptError

    try:
        found = measurement.measure(script, arguments or [], seconds, say, is_module, headroom)
    except ScriptError as error:
        verdict = broken(script, error)
        print_json(**verdict.as_dict()) if as_json else print_verdict(verdict)
        raise typer.Exit(Outcome.BROKEN.exit_code) from None
    if as_json:
        print_json(**found.as_dict())
    else:
        print_measurement(script if is_module else Path(script).name, found)
