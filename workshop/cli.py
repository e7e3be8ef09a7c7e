"""The commands of the workshop: parse, call, print. Those for scripts of one's own are in `instruments`.

What they do is done elsewhere, and imported only by the command that needs it.
"""

import dataclasses
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop import instruments
from workshop.errors import EXIT_INTERRUPTED, WorkshopError, plain_errors
from workshop.instruments import JsonOption, print_verdict
from workshop.pets.layout import BASE_FOLDER, DEFAULT_DATA, SOURCE
from workshop.printing import ask, filled, print_diff, print_json, print_lesson, print_rows, say

if TYPE_CHECKING:
    from workshop.judge import Ask
    from workshop.parts import Part
    from workshop.state import State

EXIT_NOT_READY = 1

app = typer.Typer(
    epilog="Without a command, it says what to do next.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data", help="The pictures: photos, or a stand-in drawn for them.")

app.add_typer(instruments.app)

DataOption = Annotated[Path, typer.Option("--data", help="Folder of the data.")]
ScriptOption = Annotated[Path, typer.Option("--script", help="Your script.")]
PartScriptOption = Annotated[
    Path | None, typer.Option("--script", help="Your script; else the part's, such as train.py.", show_default=False)
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Such as cpu or cuda:1.", show_default=False)]
YesOption = Annotated[bool, typer.Option("--yes", help="See the solution without having tried.")]
AnswerOption = Annotated[
    str | None, typer.Option("--answer", help="Your answer, if the part asks a question.", show_default=False)
]
PartArgument = Annotated[str | None, typer.Argument(help="Which part: part3, or 3.", show_default=False)]
DEFAULT_SCRIPT = Path("train.py")


def main() -> None:
    """The console script."""
    # A timeout, or a terminal that is closed, ends this as Ctrl-C does, with nothing left behind. Windows lacks SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    with plain_errors():
        try:
            app(prog_name="workshop")  # also when it is run as a module
        except SystemExit as stop:
            if stop.code == EXIT_INTERRUPTED:  # typer ends without a word
                raise KeyboardInterrupt from None
            raise


@app.callback()
def what_next(context: typer.Context) -> None:
    """A profiling workshop for PyTorch."""
    if context.invoked_subcommand is None:
        from workshop.progress import next_step
        from workshop.state import State

        says, command = next_step(State(Path.cwd()), DEFAULT_SCRIPT)
        print(f"{filled(says)}\n\n    {command}\n\nAll commands: workshop --help")


@app.command()
def doctor(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Check that this machine is ready for the workshop.

    Exit code 1: it is not.

    Example: workshop doctor
    """
    from workshop.doctor import examine
    from workshop.state import State

    rows = examine(data)
    if as_json:
        print_json(rows=[dataclasses.asdict(row) for row in rows])
    else:
        print_rows([(row.status, row.name, row.found, row.remedy) for row in rows])
    failed = sum(row.status == "fail" for row in rows)
    if not as_json:
        print(f"\n{failed} to mend: marked fail above." if failed else "\nReady. What comes next: workshop")
    if failed:
        raise typer.Exit(EXIT_NOT_READY)
    if DEFAULT_SCRIPT.is_file():
        State(Path.cwd()).put("ready", "doctor")


@data_app.command()
def status(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Say which pictures are on disk.

    Exit code 1: no complete set.

    Example: workshop data status
    """
    from workshop.pets.status import report

    sets = report(data)
    if as_json:
        print_json(sets=[dataclasses.asdict(each) for each in sets])
    else:
        print_rows([(each.state, each.name, each.found, each.remedy) for each in sets])
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
    """Fetch the photos (0.8 GB), or go on fetching.

    Example: workshop data download --from /media/usb
    """
    from workshop.pets.ensure import ensure_photos

    root = ensure_photos(data, source)
    print(f"The photos are complete in {root / BASE_FOLDER}.")


@data_app.command()
def make(data: DataOption = DEFAULT_DATA) -> None:
    """Draw the stand-in (70 MB, a few seconds).

    Example: workshop data make
    """
    from workshop.pets.ensure import ensure_stand_in

    root = ensure_stand_in(data)
    print(f"The stand-in is complete in {root / BASE_FOLDER}.")


@app.command("list")
def list_parts(script: ScriptOption = DEFAULT_SCRIPT, as_json: JsonOption = False) -> None:
    """Show the parts, how far you are, and what comes next.

    Example: workshop list
    """
    from workshop.progress import next_part, progress
    from workshop.state import State

    state = State(script.absolute().parent)
    parts, following = progress(state, script), next_part(state)
    if as_json:
        print_json(parts=[dataclasses.asdict(each) for each in parts], next=following and following.name)
        return
    rows = []
    for each in parts:
        best = f"{each.best_ratio:.1f} times as fast at best" if each.best_ratio else ""
        hints = f"hints seen: {each.hints_seen}" if each.hints_seen else ""
        rows.append((each.state, each.part, "; ".join(filter(None, [each.title, best, hints])), ""))
    print_rows(rows)
    print(_what_next(following))


@app.command()
def show(part: PartArgument = None, script: ScriptOption = DEFAULT_SCRIPT) -> None:
    """Read a lesson.

    Without a name, that of the part to do next.

    Example: workshop show part3
    """
    from workshop.progress import named_or_next
    from workshop.state import State

    state = State(script.absolute().parent)
    found = named_or_next(part, state)
    if script.is_file():
        state.put(True, "parts", found.name, "read")
    print_lesson(found.lesson.read_text(encoding="utf-8"))


@app.command()
def hint(part: PartArgument = None, script: ScriptOption = DEFAULT_SCRIPT) -> None:
    """Get a hint; each time the next one.

    Example: workshop hint part3
    """
    from workshop.progress import named_or_next, next_hint
    from workshop.state import State

    state = State(script.absolute().parent)
    found = named_or_next(part, state)
    number, text = next_hint(state, found)
    print(f"{found.name}, hint {number} of {len(found.hints)}\n\n{filled(text)}")
    if number == len(found.hints) and found.changes:
        print(f"\nIt was the last. The solution: workshop solution {found.name}")


@app.command()
def check(
    part: PartArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Check every part, one after the other.")] = False,
    answer: AnswerOption = None,
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
    from workshop import judge
    from workshop.parts import all_parts, find_part
    from workshop.progress import next_part
    from workshop.state import State

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
            todo.append((each, judge.existing(own, each)))
    state = State(todo[0][1].parent)
    askers = [_asker(each, answer, every, as_json, state) for each, _ in todo]  # before any of them takes a minute
    verdicts = []
    for (each, own), asker in zip(todo, askers, strict=True):
        say(f"{each.name}: {each.title}")
        verdicts.append(judge.check(each, own, data, config, device, say, asker, state))
        if not as_json:
            print_verdict(verdicts[-1])
    following = next_part(state, after=todo[-1][0])
    if as_json:
        found = {"verdicts": [v.as_dict() for v in verdicts]} if every else verdicts[0].as_dict()
        print_json(**found, next_part=following and following.name)
    elif verdicts[-1].outcome.exit_code == 0:
        print(f"\n{verdicts[-1].subject} is finished. {_what_next(following)}")
    raise typer.Exit(max(verdict.outcome.exit_code for verdict in verdicts))


@app.command()
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
    from workshop import judge
    from workshop.progress import named_or_next, next_part
    from workshop.state import State
    from workshop.watch import changes

    state = State(script.absolute().parent if script else Path.cwd())
    found = named_or_next(part, state)
    script = script or Path(found.script)
    judge.existing(script, found)
    asker = _asker(found, None, False, False, state)
    for _ in changes([script, Path(f"{script.name}.lprof")] if found.question else [script]):
        say(f"{found.name}: {found.title}")
        try:
            verdict = judge.check(found, script, data, device=device, say=say, ask=asker, state=state)
        except WorkshopError as error:  # a file that is being edited may be anything for a while
            say(str(error))
        else:
            print_verdict(verdict)
            if verdict.outcome.exit_code == 0:
                print(f"\n{found.name} is finished. {_what_next(next_part(state, after=found))}")
        say(f"watching {script}; Ctrl-C ends it")


@app.command()
def diff(
    part: Annotated[str, typer.Argument(help="part3, or 3.", show_default=False)],
    other: Annotated[str | None, typer.Argument(help="Another part.", show_default=False)] = None,
    script: PartScriptOption = None,
    yes: YesOption = False,
) -> None:
    """Compare your script with the solution of a part.

    Of two parts, the solutions are compared.

    Example: workshop diff part3 part5
    """
    from workshop.judge import existing
    from workshop.parts import find_part
    from workshop.progress import difference, solution
    from workshop.state import State

    found = find_part(part)
    script = script or Path(found.script)
    state = State(script.absolute().parent)
    right = solution(state, find_part(other or part), yes)
    left = solution(state, found, yes) if other else existing(script, found)
    print_diff(difference(left, right))


@app.command()
def solution(
    part: Annotated[str, typer.Argument(help="part3, or 3.", show_default=False)],
    write: Annotated[bool, typer.Option("--write", help="Put it in the place of your script, which is kept.")] = False,
    yes: YesOption = False,
    script: PartScriptOption = None,
) -> None:
    """Show a solution, once you have tried it yourself.

    Example: workshop solution part3 --write
    """
    from workshop import judge, progress
    from workshop.parts import find_part
    from workshop.state import State

    found = find_part(part)
    script = script or Path(found.script)
    source = progress.solution(State(script.absolute().parent), found, yes)
    if write:
        backup = judge.put(source, script)
        print(f"{script} is now the solution of {source.stem}." + (f" Yours is kept as {backup}." if backup else ""))
    else:
        print(source.read_text(encoding="utf-8"), end="")


@app.command()
def selftest(data: DataOption = DEFAULT_DATA) -> None:
    """Check the checks themselves.

    Example: workshop selftest

    Every part must fail before it is done and pass with its solution or the right answer, and every cheat must be
    refused. It takes ten to twenty minutes. Exit code 1: it is not so.
    """
    from workshop.selftest import trials

    failed = 0
    for trial in trials(data):
        failed += not trial.passed
        print(f"{'ok  ' if trial.passed else 'FAIL'}  {trial.what}: {trial.found}", flush=True)
    raise typer.Exit(EXIT_NOT_READY if failed else 0)


@app.command()
def start(part: PartArgument = None, script: PartScriptOption = None) -> None:
    """Put the script of a part here, for you to edit.

    Without a name, that of the part to do next.

    Example: workshop start part9
    """
    from workshop import judge
    from workshop.progress import named_or_next
    from workshop.state import State

    found = named_or_next(part, State(script.absolute().parent if script else Path.cwd()))
    script = script or Path(found.script)
    if script.exists():
        print(f"{script} is here already; workshop reset {found.name} puts the untouched one in its place.")
    else:
        judge.put(found.untouched, script)
        print(f"{script} is here. Edit it; what to do is in workshop show {found.name}")


@app.command()
def reset(part: PartArgument = None, script: PartScriptOption = None) -> None:
    """Put the untouched script back; yours is kept.

    With the date in its name. Without the name of a part, it is train.py.

    Example: workshop reset part9
    """
    from workshop import judge
    from workshop.parts import all_parts, find_part

    found = find_part(part) if part else all_parts()[0]
    script = script or Path(found.script)
    backup = judge.put(found.untouched, script)
    print(f"{script} is as it was at first." + (f" Yours is kept as {backup}." if backup else ""))


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


def _what_next(part: "Part | None") -> str:
    if part is None:
        return "That was the last part. Now measure a script of your own: workshop measure SCRIPT"
    return f"Next: {part.name}, {part.title}: workshop show {part.name}"
