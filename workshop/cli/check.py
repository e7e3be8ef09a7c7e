"""The commands `workshop check` and `workshop watch`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.course import what_comes_next
from workshop.cli.options import COURSE, DataOption, DeviceOption, JsonOption, PartArgument, PartScriptOption
from workshop.cli.output import ask, print_json, say
from workshop.errors import WorkshopError
from workshop.pets.layout import DEFAULT_DATA

if TYPE_CHECKING:
    from workshop.course.answers.question import Ask
    from workshop.course.state import State
    from workshop.parts import Part

app = typer.Typer()


@app.command(rich_help_panel=COURSE)
def check(
    part: PartArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Check every part, one after the other.")] = False,
    answer: Annotated[
        str | None, typer.Option("--answer", help="Your answer, if the part asks a question.", show_default=False)
    ] = None,
    script: PartScriptOption = None,
    config: Annotated[
        Path | None, typer.Option(help="Take image and batch size from this config.", show_default=False)
    ] = None,
    device: DeviceOption = None,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Judge your script, or your answer to a question.

    Example: workshop check part3

    Exit codes: 0 done; 1 not there yet; 2 wrong usage; 3 not the same work; 4 undecided, the machine is too noisy;
    5 the script broke. With --all it is the highest of them.
    """
    from workshop.cli.verdict_text import print_verdict
    from workshop.course import checks
    from workshop.course.progress import next_part
    from workshop.course.scripts import existing
    from workshop.course.state import State
    from workshop.parts import all_parts, find_part

    if every and answer is not None:
        raise typer.BadParameter("goes with one part, not with --all", param_hint="--answer")
    if every == (part is not None):
        raise typer.BadParameter("name one part, such as part3, or say --all")
    todo = []
    for each in all_parts() if every else [find_part(part or "")]:
        own = _script_of(each, script, every)
        if every and each.own_script and not own.is_file():
            say(f"{each.name} is left out: there is no {own}; workshop start {each.name} puts it there")
        else:
            todo.append((each, existing(own, each)))
    state = State(todo[0][1].parent)
    askers = [_asker(each, answer, every, as_json, state) for each, _ in todo]  # before any of them takes a minute
    verdicts = []
    for (each, own), asker in zip(todo, askers, strict=True):
        say(f"{each.name}: {each.title}")
        verdicts.append(checks.check(each, own, data, config, device, say, asker, state))
        if not as_json:
            print_verdict(verdicts[-1])
    following = next_part(state, after=todo[-1][0])
    if as_json:
        found = {"verdicts": [v.as_dict() for v in verdicts]} if every else verdicts[0].as_dict()
        print_json(**found, next_part=following and following.name)
    elif verdicts[-1].outcome.exit_code == 0:
        print(f"\n{verdicts[-1].subject} is finished. {what_comes_next(following)}")
    raise typer.Exit(max(verdict.outcome.exit_code for verdict in verdicts))


@app.command(rich_help_panel=COURSE)
def watch(
    part: PartArgument = None,
    script: PartScriptOption = None,
    device: DeviceOption = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Check a part each time the script is saved.

    Until Ctrl-C. Without a name, the part to do next.

    Example: workshop watch part3
    """
    from workshop.cli.verdict_text import print_verdict
    from workshop.course import checks
    from workshop.course.file_changes import changes
    from workshop.course.progress import named_or_next, next_part
    from workshop.course.scripts import existing
    from workshop.course.state import State

    state = State(script.absolute().parent if script else Path.cwd())
    found = named_or_next(part, state)
    script = script or Path(found.script)
    existing(script, found)
    asker = _asker(found, None, False, False, state)
    for _ in changes([script, Path(f"{script.name}.lprof")] if found.question else [script]):
        say(f"{found.name}: {found.title}")
        try:
            verdict = checks.check(found, script, data, device=device, say=say, ask=asker, state=state)
        except WorkshopError as error:  # a file that is being edited may be anything for a while
            say(str(error))
        else:
            print_verdict(verdict)
            if verdict.outcome.exit_code == 0:
                print(f"\n{found.name} is finished. {what_comes_next(next_part(state, after=found))}")
        say(f"watching {script}; Ctrl-C ends it")


def _script_of(part: "Part", script: Path | None, every: bool) -> Path:
    """The file to judge: the one that was named; or the part's own, which of many parts is beside it."""
    if script is None:
        return Path(part.script)
    return script.with_name(part.script) if every and part.own_script else script


def _asker(part: "Part", answer: str | None, every: bool, as_json: bool, state: "State") -> "Ask | None":
    """How a part's question is answered: beforehand, as remembered, or by the person at the terminal."""
    if not part.question:
        if answer is not None:
            raise typer.BadParameter(f"{part.name} asks no question", param_hint="--answer")
        return None
    known = state.get("parts", part.name, "answer") if every and not part.changes else answer
    if known is not None:
        return lambda _: str(known)
    if part.changes:
        return None  # what was changed is judged without an answer, too
    if as_json or not sys.stdin.isatty():
        raise WorkshopError(f"{part.name} asks: {part.question} Say it: workshop check {part.name} --answer ANSWER")
    return ask
