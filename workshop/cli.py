"""The commands: parse, call, print. What they do is done elsewhere, and imported only by the command that needs it."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from workshop.errors import EXIT_INTERRUPTED, plain_errors
from workshop.pets.layout import BASE_FOLDER, DEFAULT_DATA, SOURCE

EXIT_NOT_READY = 1

app = typer.Typer(
    help="A profiling workshop for PyTorch.",
    epilog="First steps: workshop doctor, then kernprof -lv train.py configs/example_config.py",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data", help="The pictures to train on: photos, or a stand-in drawn for them.")

DataOption = Annotated[Path, typer.Option("--data", help="Folder of the data.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


def main() -> None:
    """The console script."""
    with plain_errors():
        try:
            app(prog_name="workshop")  # also when it is run as a module
        except SystemExit as stop:
            if stop.code == EXIT_INTERRUPTED:  # typer ends without a word
                raise KeyboardInterrupt from None
            raise


@app.command()
def doctor(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Check that this machine is ready for the workshop. Exit code 1: it is not."""
    from workshop.doctor import examine

    rows = examine(data)
    if as_json:
        _print_json(rows=[dataclasses.asdict(row) for row in rows])
    else:
        _print_rows([(row.status, row.name, row.found, row.remedy) for row in rows])
    if any(row.status == "fail" for row in rows):
        raise typer.Exit(EXIT_NOT_READY)


@data_app.command()
def status(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Say which pictures are on disk. Exit code 1: no complete set."""
    from workshop.pets.status import report

    sets = report(data)
    if as_json:
        _print_json(sets=[dataclasses.asdict(each) for each in sets])
    else:
        _print_rows([(each.state, each.name, each.found, each.remedy) for each in sets])
    if not any(each.state == "complete" for each in sets):
        raise typer.Exit(EXIT_NOT_READY)


@data_app.command()
def download(
    data: DataOption = DEFAULT_DATA,
    source: Annotated[
        str,
        typer.Option("--from", help="Address or folder with images.tar.gz and annotations.tar.gz.", metavar="SOURCE"),
    ] = SOURCE,
) -> None:
    """Fetch the photos (0.8 GB), or go on fetching."""
    from workshop.pets.ensure import ensure_photos

    root = ensure_photos(data, source)
    print(f"The photos are complete in {root / BASE_FOLDER}.")


@data_app.command()
def make(data: DataOption = DEFAULT_DATA) -> None:
    """Draw the stand-in (70 MB, a few seconds)."""
    from workshop.pets.ensure import ensure_stand_in

    root = ensure_stand_in(data)
    print(f"The stand-in is complete in {root / BASE_FOLDER}.")


_STYLES = {"ok": "green", "complete": "green", "warn": "yellow", "absent": "yellow", "fail": "red", "incomplete": "red"}


def _print_rows(rows: list[tuple[str, str, str, str]]) -> None:
    """A table of state, name and finding, with the remedy under the finding."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for state, name, found, remedy in rows:
        finding = Text(found)
        if remedy:
            finding.append(f"\n-> {remedy}")
        table.add_row(Text(state, _STYLES[state]), name, finding)
    # A pipe or a file has no width: what is cut into lines there can no longer be copied.
    Console(highlight=False, width=None if sys.stdout.isatty() else 1000).print(table)


def _print_json(**fields: Any) -> None:
    print(json.dumps({"schema_version": 1} | fields, indent=2))
