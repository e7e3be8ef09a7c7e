"""`workshop monitor`: cores, memory, GPUs and every process of a run, while it runs."""

from typing import Annotated

import typer

from workshop.cli.options import INSTRUMENTS, JsonOption
from workshop.cli.output import print_json

app = typer.Typer()


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
    from workshop.runs.snapshot import Watch

    if as_json:
        print_json(**first_rates(Watch(pid), interval).as_dict())
    else:
        show(Watch(pid), interval, once, Console(highlight=False))
