"""The command `workshop monitor`."""

from typing import Annotated

import typer

from workshop.cli.options import INSTRUMENTS, JsonOption
from workshop.cli.output import print_json

app = typer.Typer()


@app.command(rich_help_panel=INSTRUMENTS)
def monitor(
    pid: Annotated[
        list[int] | None, typer.Option(help="Of a run; by default every training run.", show_default=False)
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two pictures.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch cores, memory, GPUs and every process of a run.

    Start the training in another terminal.

    Example: workshop monitor --once
    """
    import time

    from rich.console import Console

    from workshop.cli.monitor_screen import show
    from workshop.processes.snapshot import Watch

    watch = Watch(pid)
    if as_json:
        watch.snapshot()
        time.sleep(interval)
        print_json(**watch.snapshot().as_dict())
    else:
        show(watch, interval, once, Console(highlight=False))
