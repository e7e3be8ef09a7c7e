"""The command `workshop compare`."""

from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import INSTRUMENTS, JsonOption
from workshop.cli.output import print_json, say
from workshop.errors import WorkshopError

app = typer.Typer()


@app.command(context_settings={"ignore_unknown_options": True}, rich_help_panel=INSTRUMENTS)
def compare(
    old: Annotated[Path, typer.Argument(help="The script that does the right work.", show_default=False)],
    new: Annotated[Path, typer.Argument(help="The script to judge.", show_default=False)],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments passed on to both scripts.", show_default=False)
    ] = None,
    target: Annotated[float, typer.Option(help="How many times as fast the new one must be.", min=0.01)] = 1.1,
    steps: Annotated[
        int | None,
        typer.Option(help="Optimizer steps in an epoch; by default the DataLoader's length, 50 at most.", min=1),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Judge two training scripts of your own.

    Does the new one do the same work, and how much faster?

    Example: workshop compare old.py new.py config.py --device cpu

    Both run with the same arguments, in this folder, and end when the judge has seen enough. Options of this command
    come before the scripts. Exit codes are those of check.
    """
    from workshop.cli.verdict_text import print_verdict
    from workshop.judge import compare as judge

    for script in (old, new):
        if not script.is_file():
            raise WorkshopError(f"there is no file {script.absolute()}; name two training scripts")
    verdict = judge.compare(old, new, arguments or [], target, steps, say)
    print_json(**verdict.as_dict()) if as_json else print_verdict(verdict)
    raise typer.Exit(verdict.outcome.exit_code)
