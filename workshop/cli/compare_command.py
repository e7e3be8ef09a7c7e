"""The command that judges two versions of a training script: `workshop compare`."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workshop.cli.asked import Asked
from workshop.cli.options import (
    COMMAND_FOLLOWS,
    INSTRUMENTS,
    CellsOption,
    FormatOption,
    JsonOption,
    budget_of,
    share_of,
)
from workshop.cli.output import filled, progress_line, tell_of_notebook, warn
from workshop.cli.reported import of_gate, of_verdict
from workshop.errors import WorkshopError
from workshop.notebooks.cell_places import place

if TYPE_CHECKING:
    from workshop.gate import GateResult
    from workshop.judge.verdict import Verdict

app = typer.Typer()


@app.command(context_settings=COMMAND_FOLLOWS, rich_help_panel=INSTRUMENTS)
def compare(
    context: typer.Context,
    scripts: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD NEW [ARGUMENTS]...",
            help="The script that does the right work, the one to judge, and arguments passed on to both; with "
            "--base, one script and its arguments.",
        ),
    ],
    base: Annotated[str | None, typer.Option(help="Compare the script with its version at this git revision.")] = None,
    allow: Annotated[
        str | None, typer.Option(help="With --base: how much slower is still fine; by default 5%.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="The speedup that NEW must reach; by default 1.1.", min=0.01)
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Optimizer steps in an epoch; by default the DataLoader's length, 50 at most.", min=1),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="The time until the verdict, such as 90, 90s or 10m; long epochs are cut. By default 2m, with "
            "--base 10m."
        ),
    ] = None,
    cells: CellsOption = None,
    formats: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge two training scripts, or one against a git revision.

    Does the new one do the same work, and how much faster?

    Example: workshop compare old.py new.py config.py --device cpu

    Both run with the same arguments, in this folder, and end when the judge has seen enough, or the budget is spent.
    Options of this command come before the scripts. Exit codes are those of check.

    With --base, it is a gate for changes: workshop compare --base origin/main train.py config.py. The script of the
    working tree, as it is now, is raced against its version at that revision, which imports its own modules. Exit
    codes: 0, not slower than allowed; 1, slower for certain: the lines that grew are named; 2, wrong usage; 3, not
    the same work; 4, undecided; 5, a version crashed.
    """
    from workshop.cli.result_text import print_verdict

    seconds = budget_of(budget or ("2m" if base is None else "10m"))
    if base is None and allow is not None:
        raise typer.BadParameter("goes with --base", param_hint="--allow")
    if base is not None and target is not None:
        raise typer.BadParameter("goes with two scripts; with --base, say --allow", param_hint="--target")
    *_, script = names = scripts[: 2 if base is None else 1]
    asked = Asked(context, script, scripts[len(names) :], as_json=as_json, formats=formats)
    if base is not None:
        found = _of_base(asked, base, share_of(allow or "5%"), steps, seconds)
        code = found.verdict.outcome.exit_code
        asked.answer(found.as_dict(), lambda: _print_gate(found), lambda: of_gate(found), exit_code=code)
    if len(names) < 2:
        raise WorkshopError("name two scripts, OLD and NEW; or --base REVISION and one script")
    verdict = _of_two(asked, Path(names[0]), target or 1.1, steps, seconds)
    code = verdict.outcome.exit_code
    asked.answer(verdict.as_dict(), lambda: print_verdict(verdict), lambda: of_verdict(verdict), exit_code=code)


def _of_two(asked: Asked, old: Path, target: float, steps: int | None, seconds: float) -> "Verdict":
    from workshop.file_kind import require_script
    from workshop.judge.bench import Bench
    from workshop.judge.contest import of_two_scripts
    from workshop.judge.verdict import broken
    from workshop.runs.script_error import ScriptError, require_syntax

    new = Path(asked.script)
    for script in (old, new):
        require_script(script, "name two training scripts")
    tell_of_notebook(str(old))
    contest = of_two_scripts(old, new, asked.arguments, target, seconds, steps)
    try:
        for script in (old, new):
            require_syntax(script)
        with progress_line() as show, Bench(contest, show, warn) as bench:
            return replace(bench.judge(), machine=bench.load.end())
    except ScriptError as error:
        return broken(new.name, error, old.name)


def _of_base(asked: Asked, base: str, allowed: float, steps: int | None, seconds: float) -> "GateResult":
    from workshop.file_kind import require_script
    from workshop.gate import judge_against

    script = Path(asked.script)
    require_script(script, "name a training script")
    with progress_line() as show:
        return judge_against(base, script, asked.arguments, allowed, seconds, steps, show, warn)


def _print_gate(found: "GateResult") -> None:
    """Print the verdict, the lines that grew, and how they were found."""
    from workshop.cli.result_text import print_verdict

    print_verdict(found.verdict)
    if found.lines:
        print("\nThe lines that grew, in ms a step:")
    for each in found.lines:
        kind = "" if each.kind == "same" else f"{each.kind}, "
        at = place(each.file, each.line, path=True)
        print(f"\n  {at}  {each.before_ms:.2f} -> {each.after_ms:.2f}  ({kind}in {each.function})")
        print(filled(each.text, "      "))
    if about := str(found.about_lines or ""):
        print(f"\n{filled(about[:1].upper() + about[1:])}.")
