"""`workshop report`: what was measured in the course, as a page to keep, print and send."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from workshop.cli.course import state_beside
from workshop.cli.options import COURSE, DEFAULT_SCRIPT, JsonOption, ScriptOption
from workshop.cli.output import filled, print_json, write_file
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.pages.template import maker_of

app = typer.Typer()


@app.command(rich_help_panel=COURSE)
def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("workshop-report.html"),
    script: ScriptOption = DEFAULT_SCRIPT,
    as_json: JsonOption = False,
) -> None:
    """Write a page of what you did and measured, to keep.

    Example: workshop report

    It shows which parts are done, the speedup of each, the phases of an epoch and the line profile before and after,
    the pages that you have made, the machine and the versions. It opens without a network. The figures are those that
    `workshop check` has kept; nothing is measured anew, and `workshop reset` takes nothing from it.
    """
    from workshop.course import course_report
    from workshop.pages import report_page

    state = state_beside(script)
    found = course_report.gather(state, script)
    if as_json:
        print_json(**found.as_dict())
        return
    _refuse_another_file(output)
    folder = output.absolute().parent.resolve()
    write_file(output, report_page.page(found.as_dict(), folder, datetime.now().astimezone()))
    print(filled(_summary(output, found.count, len(found.checks), state)))


def _refuse_another_file(output: Path) -> None:
    """Raise a WorkshopError if a file would be lost that is no page of this command."""
    if output.is_file() and output.stat().st_size:
        made = maker_of(output.read_text(encoding="utf-8", errors="replace"))
        if made is None or made[0] != "workshop report":
            raise WorkshopError(f"{output} is there already, and no page of workshop report; name another with -o")


def _summary(output: Path, count: tuple[int, int], checks: int, state: State) -> str:
    says = f"{output} shows {count[0]} of {count[1]} parts done, and {checks} check{'s' * (checks != 1)}."
    if not checks:
        return f"{says} No check was kept in {state.path.parent} yet: workshop check keeps each one."
    return f"{says} Open it in a browser."
