"""Options and arguments that several commands share, and the command groups of the help."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from workshop.course.state import State
from workshop.errors import WorkshopError

COURSE = "The course"
INSTRUMENTS = "Instruments, for any training script"
INSTRUCTORS = "For instructors"

DEFAULT_SCRIPT = Path("train.py")


def _choose(cells: str | None) -> str | None:
    """Have only these cells of notebooks run by this command."""
    from workshop.notebooks.cell_script import choose

    try:
        choose(cells or "")
    except ValueError:
        raise typer.BadParameter(f"{cells} names no cells; write 1-7,9", param_hint="--cells") from None
    return cells


COMMAND_FOLLOWS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the first word that is not an option belongs to the command that is run."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format", metavar="NAME[=FILE]", help="github, markdown or sarif, to stdout or to a file; may be repeated."
    ),
]
DiffOption = Annotated[bool, typer.Option("--diff", help="Show what changed from BEFORE to AFTER.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV instead.")]
DataOption = Annotated[Path, typer.Option("--data", help="The data folder.")]
ScriptOption = Annotated[Path, typer.Option("--script", help="Your script.")]
PartScriptOption = Annotated[
    Path | None, typer.Option("--script", help="Your script; by default that of the part, such as train.py.")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Such as cpu or cuda:1.")]
TrainingScriptArgument = Annotated[str, typer.Argument(help="Any training script or notebook, or torchrun.")]
ScriptArguments = Annotated[list[str] | None, typer.Argument(help="Arguments passed on to the script.")]
ModuleOption = Annotated[bool, typer.Option("-m", help="Run the script as a module, like python -m.")]
CellsOption = Annotated[
    str | None,
    typer.Option("--cells", help="Of a notebook, run these cells, such as 1-7,9.", metavar="CELLS", callback=_choose),
]
SaveOption = Annotated[Path | None, typer.Option("--save", help="Keep the measurement in this file, to compare with.")]
AgainstOption = Annotated[
    Path | None, typer.Option("--diff", "--against", help="What changed since this measurement?", metavar="BEFORE")
]
PartArgument = Annotated[str | None, typer.Argument(help="Which part: part3, or 3.")]


def state_beside(script: Path | None) -> State:
    """Return the state stored beside a script; None stands for a script in this folder."""
    return State((script or DEFAULT_SCRIPT).absolute().parent)


def before_and_after(paths: Sequence[Path]) -> tuple[Path, Path]:
    """Return the two paths that --diff compares."""
    if len(paths) != 2:
        raise typer.BadParameter("takes two, BEFORE AFTER: files, or folders of them", param_hint="--diff")
    return paths[0], paths[1]


def seconds_of(text: str) -> float:
    """Return the seconds of a text such as "90", "90s", "10m" or "1h".

    Raises:
        typer.BadParameter: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found:
        raise typer.BadParameter(f"{text} is no time; write 90, 90s, 10m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def budget_of(text: str) -> float:
    """Return the seconds of a budget that may be spent.

    Raises:
        typer.BadParameter: it is no time, or too short.
    """
    from workshop.judge.contest import MIN_BUDGET_S

    if (seconds := seconds_of(text)) < MIN_BUDGET_S:
        raise typer.BadParameter(f"is {MIN_BUDGET_S:.0f} seconds at least", param_hint="--budget")
    return seconds


def share_of(text: str) -> float:
    """Return the share of a text such as "5%", "5 %" or "5", which is 0.05.

    Raises:
        typer.BadParameter: it is none, or 100 % or more.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", text.strip())
    if not found or float(found[1]) >= 100:
        raise typer.BadParameter(f"{text} is no share below 100 %; write 5%")
    return float(found[1]) / 100


def bytes_of(text: str, option: str) -> float:
    """Return the number of bytes of a text such as "16G" or "800 MB", whose units are powers of 1000.

    Raises:
        typer.BadParameter: it is no size.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not found or not float(found[1]):
        raise typer.BadParameter(f"{text} is no size; write 16G or 800M", param_hint=option)
    return float(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[found[2].upper()]


def exclude_each_other(**options: object) -> None:
    """Raise a usage error if more than one of these options, named without dashes, was given."""
    first, *others = [f"--{name}" for name, given in options.items() if given] or [""]
    if others:
        raise typer.BadParameter(f"{first} and {others[0]} exclude each other")


@contextmanager
def installed(extra: str, needs: str, *packages: str) -> Iterator[None]:
    """Let what needs packages that are installed only on demand be imported, or say how to get them.

    Raises:
        WorkshopError: one of the packages is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise WorkshopError(f"this needs {needs}: pip install 'profiling-workshop[{extra}]'") from None
