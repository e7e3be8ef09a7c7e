"""The commands about this machine: `workshop doctor`, `workshop data`, and `workshop monitor`."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.options import COURSE, DEFAULT_SCRIPT, INSTRUMENTS, DataOption, JsonOption
from workshop.cli.output import print_json, progress_line
from workshop.cli.terminal_tables import print_rows
from workshop.course.state import State
from workshop.pets.layout import BASE_FOLDER, DEFAULT_DATA, SOURCE, status_of_sets

app = typer.Typer()
data_app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data", help="Get the pictures: photos, or a stand-in.", rich_help_panel=COURSE)


@app.command(rich_help_panel=COURSE)
def doctor(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Check that this machine is ready for the workshop.

    Exit code 1: it is not.

    Example: workshop doctor
    """
    from workshop.course.doctor import examine

    with progress_line(only_in_terminal=True) as show:
        show("looking at this machine")
        rows = examine(data)
    failed = sum(row.status == "fail" for row in rows)
    if as_json:
        print_json(rows=[dataclasses.asdict(row) for row in rows])
    else:
        print_rows([(row.status, row.name, row.found, row.remedy) for row in rows])
        print(f"\n{failed} to fix: marked fail above." if failed else "\nReady. What comes next: workshop")
    if failed:
        raise typer.Exit(1)
    if DEFAULT_SCRIPT.is_file():
        State(Path.cwd()).put("ready", "doctor")


@data_app.command()
def status(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Say which pictures are on disk.

    Exit code 1: no complete set.

    Example: workshop data status
    """
    sets = status_of_sets(data)
    if as_json:
        print_json(sets=[dataclasses.asdict(each) for each in sets])
    else:
        print_rows([(each.state, each.name, each.found, each.remedy) for each in sets])
    if not any(each.state == "complete" for each in sets):
        raise typer.Exit(1)


@data_app.command()
def download(
    data: DataOption = DEFAULT_DATA,
    source: Annotated[
        str,
        typer.Option("--from", help="Address or folder with images.tar.gz and annotations.tar.gz.", metavar="SOURCE"),
    ] = SOURCE,
) -> None:
    """Fetch the photos (0.8 GB), or go on fetching.

    Example: workshop data download --from /media/usb
    """
    from workshop.pets.ensure import ensure_photos

    print(f"The photos are complete in {ensure_photos(data, source) / BASE_FOLDER}.")


@data_app.command()
def make(data: DataOption = DEFAULT_DATA) -> None:
    """Draw the stand-in (70 MB, 5 to 30 seconds).

    Example: workshop data make
    """
    from workshop.pets.ensure import ensure_stand_in

    print(f"The stand-in is complete in {ensure_stand_in(data) / BASE_FOLDER}.")


@app.command(rich_help_panel=INSTRUMENTS)
def monitor(
    pid: Annotated[list[int] | None, typer.Option(help="Process to watch; by default every training run.")] = None,
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
