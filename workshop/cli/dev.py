"""The commands for authors of parts."""

from typing import Annotated

import typer

from workshop.cli.options import DataOption, PartArgument
from workshop.pets.layout import DEFAULT_DATA

EXIT_FAILED = 1

app = typer.Typer(no_args_is_help=True)


@app.callback()
def dev() -> None:
    """Prove that the workshop's own checks are right."""


@app.command()
def selftest(
    part: PartArgument = None,
    cheats: Annotated[bool, typer.Option(help="Try the cheats, too.")] = True,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Check the checks themselves.

    Example: workshop dev selftest part3

    A part must fail before it is done and pass with its solution or the right answer, and every cheat must be refused.
    Without a name, every part is tried, which takes ten to twenty minutes. Exit code 1: it is not so.
    """
    from workshop.course.selftest import run

    failed = 0
    for result in run(data, part, cheats):
        failed += result.passed is False
        mark = {True: "ok  ", False: "FAIL", None: "-   "}[result.passed]
        print(f"{mark}  {result.what}: {result.found}", flush=True)
    raise typer.Exit(EXIT_FAILED if failed else 0)
