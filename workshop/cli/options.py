"""Options and arguments that several commands share, and the command groups of the help."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

COURSE = "The course"
INSTRUMENTS = "Instruments, for any training script"

DEFAULT_SCRIPT = Path("train.py")

COMMAND_FOLLOWS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the first word that is not an option belongs to the command that is run."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
DiffOption = Annotated[bool, typer.Option("--diff", help="Show what changed from BEFORE to AFTER.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV instead.")]
DataOption = Annotated[Path, typer.Option("--data", help="The data folder.")]
ScriptOption = Annotated[Path, typer.Option("--script", help="Your script.")]
PartScriptOption = Annotated[
    Path | None,
    typer.Option("--script", help="Your script; by default that of the part, such as train.py.", show_default=False),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Such as cpu or cuda:1.", show_default=False)]
PartArgument = Annotated[str | None, typer.Argument(help="Which part: part3, or 3.", show_default=False)]


def before_and_after(paths: Sequence[Path]) -> tuple[Path, Path]:
    """Return the two paths that --diff compares."""
    if len(paths) != 2:
        raise typer.BadParameter("takes two, BEFORE AFTER: files, or folders of them", param_hint="--diff")
    return paths[0], paths[1]


def exclude_each_other(**options: object) -> None:
    """Raise a usage error if more than one of these options, named without dashes, was given."""
    first, *others = [f"--{name}" for name, given in options.items() if given] or [""]
    if others:
        raise typer.BadParameter(f"{first} and {others[0]} exclude each other")
