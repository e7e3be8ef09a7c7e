"""The command `workshop torchrun`."""

from typing import Annotated

import typer

from workshop.cli.options import COMMAND_FOLLOWS, INSTRUMENTS
from workshop.cli.output import say
from workshop.errors import WorkshopError

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS | {"help_option_names": []}, rich_help_panel=INSTRUMENTS)
def torchrun(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments passed on to torchrun.", show_default=False)
    ] = None,
) -> None:
    """Run torchrun, with its errors in one line.

    If a rank fails, it says which one and how, and leaves nothing running.

    Example: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py

    Exit code: that of the rank which failed first.
    """
    from workshop.processes import torchrun as ranks

    if not arguments:
        raise WorkshopError("name a script: workshop torchrun --nproc_per_node=2 train.py configs/example_config.py")
    code, why = ranks.run(arguments)
    if why:
        say(f"\n{why}")  # below the progress bar that it has stopped
    raise typer.Exit(code)
