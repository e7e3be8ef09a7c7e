"""Judges the script of a working tree against an earlier revision: is it the same work, and not slower?"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workshop.gate.base import Base, checked_out
from workshop.gate.grown_lines import GrownLine, count_both, lines_that_grew
from workshop.judge.bench import Bench
from workshop.judge.contest import Contest, of_two_scripts, target_of
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import NextStep, Outcome, Verdict, broken
from workshop.notebooks.cell_script import runnable
from workshop.probe import wire
from workshop.probe.settings import REDIRECT_VARIABLE, RedirectedImports
from workshop.runs.script import Say
from workshop.runs.script_error import ScriptError, require_syntax

LINES_SHARE = 0.2
"""Share of the budget that is kept for counting lines."""


class GateReason(ReasonKind):
    """What is said of the lines that grew, and of a base that broke."""

    NOT_KNOWN = "the lines that grew are not known: {error}"
    NO_LINE = "no line of your own code grew by as much, in {runs}: look at versions of libraries and at settings"
    COUNTED = "counted in {runs}, with all processes together"
    OTHER_BASE = "Take a base that runs on this machine, with these arguments."


@dataclass(frozen=True)
class GateResult:
    """How the gate ended."""

    verdict: Verdict
    base: str
    """The name of the base."""
    commit: str
    tree: Path
    """The top folder of the working tree."""
    script: Path
    """The path of the script in it."""
    allowed: float
    """The slowdown that is still fine, such as 0.05."""
    lines: tuple[GrownLine, ...] = ()
    """The lines that grew, if the script is slower than allowed."""
    about_lines: Reason | None = None
    """How they were found, or why there are none."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        about = {"base": self.base, "commit": self.commit, "allowed": self.allowed}
        about_lines = str(self.about_lines or "")
        lines = [each.as_dict() for each in self.lines]
        return {**self.verdict.as_dict(), **about, "about_lines": about_lines, "lines": lines}


def judge_against(
    revision: str,
    script: Path,
    arguments: Sequence[str],
    allowed: float,
    budget_s: float,
    steps: int | None,
    say: Say,
    tell: Say,
) -> GateResult:
    """Judge a script of a working tree against its version at a revision; both run in the present folder.

    Args:
        revision: a branch, tag or commit.
        script: the script, in the working tree.
        arguments: those of both; a file in git that is named in them is that of each version.
        allowed: the slowdown that is still fine, such as 0.05.
        budget_s: the time from the start of the scripts to the end.
        steps: the number of optimizer steps in an epoch; None for the length of the DataLoader.
        say: told of the progress.
        tell: told once how long it will take.

    Raises:
        WorkshopError: there is no such base.
    """
    with checked_out(revision, script, say) as base:
        contest = contest_of(base, script, arguments, allowed, budget_s * (1 - LINES_SHARE), steps)
        try:
            require_syntax(contest.candidate)
            with Bench(contest, say, tell) as bench:
                verdict = replace(bench.judge(), machine=bench.load.end())
        except ScriptError as error:
            verdict = _of_broken(script.name, error, contest.original_name)
        verdict = replace(verdict, reasons=(*verdict.reasons, *base.notes))
        result = GateResult(verdict, base.name, base.commit, base.tree, base.script, allowed)
        if verdict.outcome is not Outcome.NOT_YET or not verdict.speed or not bench.plan:
            return result
        left_s = bench.plan.left_s + budget_s * LINES_SHARE
        return _with_lines(result, contest, bench.steps, bench.plan.original_s, left_s, say)


def contest_of(
    base: Base, script: Path, arguments: Sequence[str], allowed: float, budget_s: float, steps: int | None = None
) -> Contest:
    """Return the contest of both versions; the base imports its own modules, and reads its own files in `arguments`."""
    contest = of_two_scripts(base.folder / base.script, script, arguments, target_of(allowed), budget_s, steps)
    name = f"{script.name} of {base.name}"
    redirected = {REDIRECT_VARIABLE: wire.encode(RedirectedImports(str(base.tree), str(base.folder)))}
    of_base = [base.argument(word) for word in arguments]
    return replace(
        contest,
        original_name=name,
        allowed=allowed,
        command=lambda path, _folder, _seed: runnable(
            [str(path), *(of_base if path == contest.original else arguments)]
        ),
        options_of_original={"environment": redirected, "title": name},
    )


def _of_broken(subject: str, error: ScriptError, base: str) -> Verdict:
    """Return the verdict on a script that broke; of the base it is said that there is nothing to compare with."""
    verdict = broken(subject, error, base, "the base")
    return replace(verdict, next=NextStep(words=GateReason.OTHER_BASE())) if verdict.words else verdict


def _with_lines(
    result: GateResult, contest: Contest, steps: int, epoch_s: float, left_s: float, say: Say
) -> GateResult:
    speed = result.verdict.speed
    assert speed
    try:
        change, counted = count_both(contest, steps, epoch_s, left_s, say)
    except (ScriptError, OSError) as error:
        return replace(result, about_lines=GateReason.NOT_KNOWN(error=error))
    step_ms = epoch_s * 1e3 / steps
    lines = lines_that_grew(change, counted, step_ms * (1 / speed.ratio - 1))
    runs = f"{change.runs[0]} run{'s' * (change.runs[0] > 1)} of {counted} steps of each version"
    if not lines:
        return replace(result, about_lines=GateReason.NO_LINE(runs=runs))
    inside = [replace(each, file=_in_tree(each.file, result.tree)) for each in lines]
    return replace(result, lines=tuple(inside), about_lines=GateReason.COUNTED(runs=runs))


def _in_tree(file: str, tree: Path) -> str:
    """Return a path relative to the working tree; one outside of it as it is."""
    real = Path(os.path.realpath(file))
    return str(real.relative_to(tree)) if real.is_relative_to(tree) else file
