"""The commands that judge a part: `workshop check`, `workshop watch` and `workshop dev selftest`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workshop.cli.course import what_comes_next
from workshop.cli.joining import tell_room
from workshop.cli.options import (
    COURSE,
    DataOption,
    DeviceOption,
    JsonOption,
    PartArgument,
    PartScriptOption,
    state_beside,
)
from workshop.cli.output import ask, commands, filled, given, print_above, print_json, progress_line, say, warn
from workshop.course import given_cases
from workshop.course.progress import named_or_next, next_part
from workshop.course.scripts import changes, existing
from workshop.course.state import State
from workshop.errors import WorkshopError
from workshop.judge.verdict import SCHEMA_VERSION
from workshop.parts import Part, all_parts
from workshop.parts.case import Case, case_names
from workshop.pets.layout import DEFAULT_DATA

if TYPE_CHECKING:
    from workshop.course.kept_checks import KeptCheck
    from workshop.judge.verdict import Verdict

app = typer.Typer()
dev_app = typer.Typer(no_args_is_help=True)
app.add_typer(dev_app, name="dev", help="Prove that the workshop's own checks are right.")


@app.command(rich_help_panel=COURSE)
def check(
    part: PartArgument = None,
    answer_word: Annotated[str | None, typer.Argument(metavar="[ANSWER]", help="The same as --answer.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every part, one after the other.")] = False,
    answer: Annotated[str | None, typer.Option("--answer", help="Your answer, if the part asks a question.")] = None,
    recording: Annotated[
        Path | None, typer.Option(help="Your recording or trace, if it is not in the usual folder.", exists=True)
    ] = None,
    script: PartScriptOption = None,
    config: Annotated[Path | None, typer.Option(help="Take image and batch size from this config.")] = None,
    device: DeviceOption = None,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Judge your script, or your answer to a question.

    Without a name, the part to do next is checked.

    Example: workshop check part3

    Exit codes: 0 done; 1 not there yet; 2 wrong usage; 3 not the same work; 4 undecided; 5 the script
    crashed. With --all, the exit code is the highest of all parts'.
    """
    if answer is not None and answer_word is not None:
        raise typer.BadParameter("is given twice", param_hint="--answer")
    answer = answer if answer_word is None else answer_word
    if every and (part or answer or recording):
        raise typer.BadParameter("goes with no part, answer or recording", param_hint="--all")
    todo = _todo(part, every, script)
    state = State(todo[0][1].parent)
    askers = [_asker(each, answer, every, as_json, state) for each, _ in todo]  # before the checks, which take minutes
    verdicts = [
        _judged(each, own, asker, state, as_json, data=data, config=config, device=device, recording=recording)
        for (each, own), asker in zip(todo, askers, strict=True)
    ]
    following = next_part(state, after=todo[-1][0])
    if as_json:
        each_one = [verdict.as_dict() for verdict in verdicts]
        found = {"schema_version": SCHEMA_VERSION, "verdicts": each_one} if every else each_one[0]
        print_json(**found, next_part=following and following.name)
    elif verdicts[-1].outcome.exit_code == 0:
        _print_end(todo[-1][0], following, state)
    raise typer.Exit(max(verdict.outcome.exit_code for verdict in verdicts))


def _todo(part: str | None, every: bool, script: Path | None) -> list[tuple[Part, Path]]:
    """Return the part to check, or every one, with its script; one whose own script is not here is left out."""
    found, state = [], state_beside(script)
    for each in [given_cases.given(part, state) for part in all_parts()] if every else [named_or_next(part, state)]:
        own = script or Path(each.script)
        if every and (each.own_script or case_names(each)):
            own = own.with_name(each.script)
            if not own.is_file() or not each.own_script:
                say(f"{each.name} is left out: its script is not here; workshop start {each.name} puts it here")
                continue
        found.append((each, existing(own, each)))
    return found


def _judged(
    part: Part, script: Path, asker: Callable[[str], str] | None, state: State, as_json: bool = False, **options: Any
) -> "Verdict":
    """Check a part, print the verdict, and tell the room."""
    from workshop.cli.result_text import print_verdict

    say(f"{part.name}: {part.title}")
    with progress_line(only_in_terminal=True) as show:
        show("loading the check")  # which may take seconds
        from workshop.course import checks
    kept: list[KeptCheck] = []
    with progress_line() as show:
        verdict = checks.check(part, script, say=show, ask=asker, state=state, tell=kept.append, warn=warn, **options)
    if not as_json:
        print_verdict(verdict)
    tell_room(state, check=kept[-1])
    return verdict


@app.command(rich_help_panel=COURSE)
def watch(
    part: PartArgument = None,
    script: PartScriptOption = None,
    device: DeviceOption = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Check a part each time the script is saved.

    Ctrl-C ends it. Without a name, the part to do next is watched.

    Example: workshop watch part3
    """
    state = state_beside(script)
    found = named_or_next(part, state)
    script = script or Path(found.script)
    existing(script, found)
    asker = _asker(found, None, False, False, state)
    for _ in changes([script, Path(f"{script.name}.lprof")] if found.question else [script]):
        try:
            verdict = _judged(found, script, asker, state, data=data, device=device)
        except WorkshopError as error:  # a file that is being edited may be broken for a while
            say(str(error))
        else:
            if verdict.outcome.exit_code == 0:
                _print_end(found, next_part(state, after=found), state)
        say(f"watching {script}; Ctrl-C ends it")


@dev_app.command()
def selftest(
    part: PartArgument = None,
    script: Annotated[str | None, typer.Option(help="With part11: one of its scripts, such as whale_calls.")] = None,
    cheats: Annotated[bool, typer.Option(help="Try the cheats, too.")] = True,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Check the checks themselves.

    Example: workshop dev selftest part3

    A part must fail before it is done and pass with its solution or the right answer, and every cheat must be refused.
    Without a name, every part is tried: ten to thirty minutes, and one to two hours for part 11. Exit code 1: a check
    is wrong.
    """
    failed, marks = False, {True: "ok  ", False: "FAIL", None: "-   "}
    with progress_line(only_in_terminal=True) as show:
        show("trying the first")
        from workshop.course.selftest import run

        for number, result in enumerate(run(data, part, cheats, script), start=1):
            failed |= result.passed is False
            print_above(f"{marks[result.passed]}  {result.tried}: {result.found}")
            show(f"{number} tried; trying the next")
    raise typer.Exit(int(failed))


def _print_end(part: Part, following: Part | None, state: State) -> None:
    """Print what a part or one of its scripts teaches, what to do with the script now, and what comes next."""
    if isinstance(part, Case):
        print(f"\n{filled(part.explanation)}")
        end = f"{part.script} is finished; {given_cases.how_many(given_cases.solved(part, state))}."
    else:
        if part.learned:
            print(f"\n{filled(f'What you know now: {part.learned}')}")
        if part.now:
            print(f"\n{filled(part.now)}")
        end = f"{part.name} is finished."
    says, to_type = what_comes_next(following, after=part)
    print(f"\n{filled(f'{end} {says}')}\n\n{commands(to_type)}")


def _asker(part: Part, answer: str | None, every: bool, as_json: bool, state: State) -> Callable[[str], str] | None:
    """Return the function that answers a part's question: from the option, from memory, or by asking the user.

    Return None for a part that can be judged without an answer.
    """
    if not part.question:
        if answer is not None:
            raise typer.BadParameter(f"{part.name} asks no question", param_hint="--answer")
        return None
    known = state.get("parts", part.name, "answer") if every and not part.change else answer
    if known is not None:
        return given(str(known))
    if part.change:
        return None  # the changed script can be judged without an answer
    if as_json or not sys.stdin.isatty():
        raise WorkshopError(
            f"{part.name} asks: {part.question.text} Say it: workshop check {part.name} --answer ANSWER"
        )
    return ask
