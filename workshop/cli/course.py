"""The commands of the course: progress, lessons, hints, scripts and solutions, and the report in the end."""

import dataclasses
import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.joining import tell_room
from workshop.cli.options import (
    COURSE,
    DEFAULT_SCRIPT,
    JsonOption,
    PartArgument,
    PartScriptOption,
    ScriptOption,
    state_beside,
)
from workshop.cli.output import commands, filled, print_diff, print_json, print_lesson, write_file
from workshop.cli.terminal_tables import print_rows
from workshop.course import given_cases, glossary, progress
from workshop.course.scripts import existing, replace_script
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.parts import Part, all_parts, teaching
from workshop.parts.case import Case, case_names

if TYPE_CHECKING:
    from workshop.course.kept_scripts import KeptScript

app = typer.Typer()

YesOption = Annotated[bool, typer.Option("--yes", help="See the solution even if you have not tried.")]
NamedPartArgument = Annotated[str, typer.Argument(help="Which part: part3, or 3.")]


@app.command("list", rich_help_panel=COURSE)
def list_parts(script: ScriptOption = DEFAULT_SCRIPT, as_json: JsonOption = False) -> None:
    """Show the parts, how far you are, and what comes next.

    Example: workshop list
    """
    state = state_beside(script)
    parts, following = progress.progress(state, script), progress.next_part(state)
    if as_json:
        print_json(parts=[dataclasses.asdict(part) for part in parts], next=following and following.name)
        return
    rows = []
    for part in parts:
        best = f"best speedup {part.best_ratio:.1f}x" if (part.best_ratio or 0) > 1 else ""
        hints = f"hints seen: {part.hints_seen}" if part.hints_seen else ""
        solved = given_cases.how_many(part.solved) if part.solved else ""
        rows.append((part.state, part.part, "; ".join(filter(None, [part.title, best, solved, hints])), ""))
    print_rows(rows)
    says, command = progress.next_step(state, script)
    print(f"{filled(says)}\n\n{commands(command)}")
    tell_room(state)


@app.command(rich_help_panel=COURSE)
def show(
    part: Annotated[str | None, typer.Argument(help="Which part: part3, or 3; or a word, such as headroom.")] = None,
    script: ScriptOption = DEFAULT_SCRIPT,
) -> None:
    """Read a lesson, or what a word means.

    Without a name, show the lesson of the part to do next. With a word of the glossary, such as headroom or data-wait,
    show what it means; "glossary" shows all words. With a cause that a lesson teaches, such as few-workers or
    graph-kept, show that lesson.

    Example: workshop show part3
    """
    if part and (entry := glossary.find(part)):
        print_lesson(entry)
        return
    if part and (taught := teaching(part)):
        part = taught[0].name
    elif part:
        glossary.refuse_unknown(part)
    state = state_beside(script)
    found = progress.named_or_next(part, state)
    if script.is_file():
        state.put(True, "parts", found.name, "read")
    print_lesson(found.lesson.read_text(encoding="utf-8"))


@app.command(rich_help_panel=COURSE)
def hint(part: PartArgument = None, script: ScriptOption = DEFAULT_SCRIPT) -> None:
    """Get a hint: the next one each time.

    Example: workshop hint part3
    """
    state = state_beside(script)
    found = progress.named_or_next(part, state)
    number, text = progress.next_hint(state, found)
    print(f"{found.name}, hint {number} of {len(found.hints)}\n\n{filled(text)}")
    tell_room(state, hint=found.name)
    if number == len(found.hints) and found.change and found.solution.is_file():
        print(f"\nThat was the last hint. The solution:\n\n{commands(f'workshop solution {found.name}')}")


@app.command(rich_help_panel=COURSE)
def diff(
    part: NamedPartArgument,
    other: Annotated[str | None, typer.Argument(help="Another part.")] = None,
    script: PartScriptOption = None,
    yes: YesOption = False,
) -> None:
    """Compare your script with the solution of a part.

    With two parts, compare their solutions.

    Example: workshop diff part3 part5
    """
    state = state_beside(script)
    found = progress.named_or_next(part, state)
    right = progress.solution(state, progress.named_or_next(other or part, state), yes)
    left = progress.solution(state, found, yes) if other else existing(script or Path(found.script), found)
    print_diff(progress.difference(left, right, found))


@app.command(rich_help_panel=COURSE)
def solution(
    part: NamedPartArgument,
    write: Annotated[bool, typer.Option("--write", help="Replace your script, and keep a copy of it.")] = False,
    yes: YesOption = False,
    script: PartScriptOption = None,
) -> None:
    """Show what a solution changes, once you have tried.

    Example: workshop solution part3 --write

    The changes are shown against the script that the part begins with. With --write, the solution replaces yours.
    """
    state = state_beside(script)
    found = progress.named_or_next(part, state)
    source = progress.solution(state, found, yes)
    if write:
        own = f" --script {shlex.quote(str(script))}" if script else ""
        backup = _replace(script or Path(found.script), source, f"now the solution of {found.name}", state)
        print(f"\nTo see what it reaches here:\n\n{commands(f'workshop check {found.name}{own}')}")
        if backup:
            print(f"\nTo get yours back:\n\n{commands(f'workshop restore {shlex.quote(backup)}{own}')}")
        return
    print_diff(progress.difference(found.beginning, source, found))
    print("" if isinstance(found, Case) else f"\nThe whole script is {source}")  # that of a case is a temporary file
    print(f"To put it in place of yours, which is kept:\n\n{commands(f'workshop solution {found.name} --write')}")


@app.command(rich_help_panel=COURSE)
def start(
    part: PartArgument = None,
    script: PartScriptOption = None,
    seed: Annotated[
        int | None, typer.Option(min=1, help="With part11: get the scripts in the order of this seed.")
    ] = None,
) -> None:
    """Put the script of a part here, for you to edit.

    Without a name, put the script of the part to do next. Part 11 has a different script for everybody; once yours
    is solved, this gets you the next one.

    Example: workshop start part9
    """
    state = state_beside(script)
    found = progress.named_or_next(part, state)
    if seed is not None and not case_names(found):
        raise typer.BadParameter(f"{found.name} has the same script for everybody", param_hint="--seed")
    given = given_cases.give(found, state, seed) if case_names(found) else found
    if given is None:
        print(f"You have solved all the scripts of {found.name}. Now measure a script of your own:")
        print(f"\n{commands('workshop measure SCRIPT')}")
        return
    script = script or Path(given.script)
    if script.exists():
        print(f"{script} is here already. To put the original in its place, and keep yours:")
        print(f"\n{commands(f'workshop reset {given.name}')}")
    else:
        replace_script(script, given.untouched)
        print(f"{script} is here. What to do with it:\n\n{commands(f'workshop show {given.name}')}")


@app.command(rich_help_panel=COURSE)
def reset(part: PartArgument = None, script: PartScriptOption = None) -> None:
    """Put the original script back; yours is kept.

    Yours is renamed with its part and the date; `workshop restore` puts it back. Without the name of a part, the
    script is train.py.

    Example: workshop reset part9
    """
    state = state_beside(script)
    found = progress.named_or_next(part or all_parts()[0].name, state)
    given_cases.require_script(found)
    _replace(script or Path(found.script), found.untouched, "the original again", state)


@app.command(rich_help_panel=COURSE)
def restore(
    part: Annotated[str | None, typer.Argument(help="Which part: part5, or 5; or the file that was kept.")] = None,
    script: PartScriptOption = None,
) -> None:
    """Put your script of a part back; the present one is kept.

    It is the script that passed the check of the part, or else the newest that was kept of it. Without the name of a
    part, say what was kept.

    Example: workshop restore part5
    """
    from workshop.course import kept_scripts

    state = state_beside(script)
    scripts = [script] if script else [Path(given_cases.given(each, state).script) for each in all_parts()]
    kept = {each: own for own in dict.fromkeys(scripts) for each in kept_scripts.kept(state, own)}
    if part is None:
        _print_kept(list(kept))
        return
    for each, own in kept.items():
        if each.path == Path(part).absolute():
            _replace(own, each.path, f"{each.path.name} again", state)
            return
    found = progress.named_or_next(part, state)
    own = script or Path(found.script)
    _replace(own, kept_scripts.of_part(state, own, found).path, f"your script of {found.name} again", state)


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
    from workshop.pages.template import maker_of

    state = state_beside(script)
    found = course_report.gather(state, script)
    if as_json:
        print_json(**found.as_dict())
        return
    if output.is_file() and output.stat().st_size:
        made = maker_of(output.read_text(encoding="utf-8", errors="replace"))
        if made is None or made[0] != "workshop report":
            raise WorkshopError(f"{output} is there already, and no page of workshop report; name another with -o")
    folder = output.absolute().parent.resolve()
    write_file(output, report_page.page(found.as_dict(), folder, datetime.now().astimezone()))
    (done, count), checks = found.count, len(found.checks)
    says = f"{output} shows {done} of {count} parts done, and {checks} check{'s' * (checks != 1)}."
    nothing = f"No check was kept in {state.path.parent} yet: workshop check keeps each one."
    print(filled(f"{says} {'Open it in a browser.' if checks else nothing}"))


def _print_kept(kept: "Sequence[KeptScript]") -> None:
    if not kept:
        print("No script was kept here.")
        return
    dates = (f"{script.date:%d %B %Y, %H:%M}" for script in kept)
    rows = zip(kept, dates, strict=True)
    print_rows([("done" * each.is_done, each.part or "?", f"{each.path.name}, {date}", "") for each, date in rows])
    print("\nTo put one back: workshop restore PART, or FILE")


def what_comes_next(part: Part | None, after: Part | None = None) -> tuple[str, str]:
    """Say which part comes next, or that the part has another script; return the sentence, and the command for it."""
    if isinstance(after, Case):
        return "There is another script:", f"workshop start {after.name}"
    if part is None:
        return "That was the last part. Now measure a script of your own:", "workshop measure SCRIPT"
    return f"Next is {part.name}, {part.title}:", f"workshop show {part.name}"


def _replace(script: Path, source: Path, is_now: str, state: State) -> str:
    """Replace the participant's script with `source`, say what it is now, and return where theirs is kept, if it is."""
    from workshop.course import kept_scripts

    backup = kept_scripts.replace(script, source.read_bytes(), state)
    print(f"{script} is {is_now}.")
    if not backup:
        return ""
    print(f"Yours is kept as {os.path.relpath(backup)}.")
    return os.path.relpath(backup)
