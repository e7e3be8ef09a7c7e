"""Proves that the checks of the parts are right.

Each part that asks for a change fails on the untouched script, and passes with its solution and with the least that its
lesson promises. Each part that asks a question fails with a wrong answer, without its profile and with a stale one, and
passes with the right answer. Of a part with many scripts, this holds for each of them. Every cheat is refused.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workshop.bad_node import chosen_rank
from workshop.course import checks
from workshop.course.answers.hot_line import FaultReason, LineReason
from workshop.course.answers.traces import TraceReason
from workshop.course.state import State
from workshop.errors import EXIT_USAGE
from workshop.experiment import ExperimentConfig
from workshop.judge.reasons import ReasonKind
from workshop.judge.verdict import Outcome
from workshop.parts import FOLDER, Part, all_parts, find_part
from workshop.parts.case import Case, case_names, find_case, without_fault
from workshop.pets.layout import OFFLINE_VARIABLE

CHEATS = FOLDER.parents[1] / "tests" / "cheats"
"""The folder of the cheats, which come with a checkout and not with an installed package."""

HINTS = 3
"""Hints that each part has."""

WORKSHOP = [sys.executable, "-m", "workshop"]

MISSING = (
    LineReason.NO_PROFILE,
    LineReason.NO_RECORDING_HERE,
    LineReason.NO_RECORDING_OF_UNTOUCHED,
    TraceReason.NO_TRACE,
    TraceReason.NO_TRACE_OF_RANKS,
)
STALE = (LineReason.STALE_PROFILE, LineReason.STALE_RECORDING, TraceReason.STALE)
"""What is said where the profile or recording is missing or stale by which an answer is judged."""


@dataclass(frozen=True)
class Attempt:
    """The result of one thing that was tried."""

    tried: str
    found: str
    passed: bool | None
    """None for what cannot be tried here."""


def run(data: Path, name: str | None = None, cheats: bool = True, script: str | None = None) -> Iterator[Attempt]:
    """Try everything, one after the other, and yield each result.

    Args:
        data: the data folder.
        name: the part that is tried; None for every part.
        cheats: try the cheats, too.
        script: of a part with many scripts, the name of the one that is tried; None for each of them.

    Raises:
        WorkshopError: there is no such part, or no such script.
    """
    if cheats and not CHEATS.is_dir():
        yield Attempt("cheats", f"not tried: they come with a checkout of the workshop, there is no {CHEATS}", None)
    with tempfile.TemporaryDirectory() as temporary:
        for part in [find_part(name)] if name else all_parts():
            hints = len(part.hints)
            yield Attempt(f"{part.name} has a lesson and {HINTS} hints", f"{hints} hints", hints == HINTS)
            for each in case_names(part) if script is None else [script]:
                yield from PartProof(find_case(part, each), Path(temporary, each), data).case(cheats)
            if case_names(part):
                continue
            proof = PartProof(part, Path(temporary, part.name), data)
            yield from proof.questions() if part.question else proof.changes()
            for cheat in sorted((CHEATS / part.name).glob("*.py")) if cheats else []:
                if cheat.stem != "variation":
                    yield proof.attempt(f"cheat {cheat.stem}", Outcome.OTHER_WORK, script=cheat)


class PartProof:
    """Tries a part, or one script of a part with many, in a folder of its own.

    Args:
        part: the part.
        folder: the folder, which is made.
        data: the data folder.
    """

    def __init__(self, part: Part, folder: Path, data: Path) -> None:
        self._part, self._folder, self._data = part, folder, data
        self._script = folder / part.script
        self._name = f"{part.name} {part.case}" if isinstance(part, Case) else part.name
        folder.mkdir()
        self._script.write_bytes(part.untouched.read_bytes())

    def attempt(
        self, name: str, expected: Outcome, answer: str = "", *kinds: ReasonKind, script: Path | None = None
    ) -> Attempt:
        """Check the script, which must end as expected, with a reason of one of the kinds, if any are given."""
        ask = None if self._part.change and not answer else lambda _: answer
        state = State(self._folder)
        verdict = checks.check(self._part, script or self._script, self._data, say=lambda _: None, ask=ask, state=state)
        found = f"{verdict.outcome.value} ({verdict.reasons[0]})"
        too_noisy = expected is Outcome.NOT_YET and verdict.outcome is Outcome.UNDECIDED and verdict.speed is not None
        is_named = not kinds or any(each.kind in kinds for reason in verdict.reasons for each in reason.parts)
        passed = (verdict.outcome is expected or too_noisy) and is_named
        return Attempt(f"{self._name}, {name}", found, passed)

    def changes(self, answer: str = "", unchanged: Outcome = Outcome.NOT_YET) -> Iterator[Attempt]:
        """Try the part's change, with the right answer to its question, if it has one.

        `unchanged` is how the check of a script with nothing gained ends.
        """
        part, script, nothing = self._part, self._script, checks.CheckReason.NOTHING_CHANGED
        script.write_bytes(part.untouched.read_bytes())
        yield self.attempt("the untouched script", Outcome.NOT_YET, answer, nothing)
        script.write_text(f"{part.untouched.read_text()}\nFAST = True\n")
        yield self.attempt("the script with nothing gained", unchanged, answer)
        script.write_bytes(part.solution.read_bytes())
        yield self.attempt("its solution", Outcome.DONE, answer)
        if part.change and part.change.least:
            script.write_bytes(without_fault(part.beginning, part.change.least).read_bytes())
            yield self.attempt("the least that its lesson promises", Outcome.DONE, answer)

    def questions(self) -> Iterator[Attempt]:
        """Try the part's question, and its change, if it has one."""
        part, script, question = self._part, self._script, self._part.question
        assert question
        right, wrong = answers(part, script)
        if not part.change:
            yield self._silence()
        if question.profiled or question.recorded:
            yield self.attempt("without a profile", Outcome.NOT_YET, right, *MISSING)
            if question.recorded == "py-spy --idle":
                profile(part, "py-spy", script, self._data)
                yield self.attempt("without --idle", Outcome.NOT_YET, right, LineReason.WITHOUT_IDLE)
            profile(part, question.recorded, script, self._data)
        yield self.attempt("a wrong answer", Outcome.NOT_YET, wrong)
        if part.change:
            yield from self.changes(right)
            return
        yield self.attempt("the right answer", Outcome.DONE, right)
        if question.profiled or question.recorded:
            script.write_text("\n" + script.read_text())
            yield self.attempt("a stale profile", Outcome.NOT_YET, right, *STALE)

    def case(self, cheats: bool) -> Iterator[Attempt]:
        """Try the answer, the change and the cheats of one script of a part with many."""
        case, script = self._part, self._script
        assert isinstance(case, Case)
        assert case.question
        hints = len(case.hints)
        yield Attempt(f"{self._name} has {HINTS} hints", f"{hints} hints", hints == HINTS)
        right, wrong_line = answers(case, script)
        wrong_cause = right.replace(case.cause, next(cause for cause in case.question.causes if cause != case.cause))
        yield self.attempt("a wrong line", Outcome.NOT_YET, wrong_line, FaultReason.OTHER_LINE)
        yield self.attempt("a wrong cause", Outcome.NOT_YET, wrong_cause, FaultReason.OTHER_CAUSE)
        single_precision_is_asked = case.cause == "float64"
        yield from self.changes(right, Outcome.OTHER_WORK if single_precision_is_asked else Outcome.NOT_YET)
        for cheat in sorted((CHEATS / case.name).glob("*.py")) if cheats else []:
            if {"no_results": case.prints or case.writes, "no_wait": case.storage}.get(cheat.stem, True):
                script.write_text(f"{cheat.read_text()}\n\n{case.solution.read_text()}")
                yield self.attempt(f"cheat {cheat.stem}", Outcome.OTHER_WORK)

    def _silence(self) -> Attempt:
        """Check a part that asks a question without an answer, and without a terminal to ask at."""
        command = [*WORKSHOP, "check", self._part.name, "--script", str(self._script)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return Attempt(f"{self._name}, no answer", f"exit code {done.returncode}", done.returncode == EXIT_USAGE)


def profile(part: Part, how: str, script: Path, data: Path) -> None:
    """Profile a script as a participant does: by kernprof, or by a recorder."""
    start = [script.name]
    if part.ranks > 1:  # only the solution trains on several
        script.write_bytes(part.solution.read_bytes())
        start = [*WORKSHOP, "torchrun", f"--nproc_per_node={part.ranks}", script.name, "--device", "cpu"]
    recorder = {
        "": ["kernprof", "-l"],
        "lines": ["workshop", "record", "lines", "--"],
        "py-spy": ["workshop", "record", "py-spy", "--", sys.executable],
        "py-spy --idle": ["workshop", "record", "py-spy", "--idle", "--", sys.executable],
        "torch": ["workshop", "record", "torch", "--wait", "0", "--warmup", "1", "--"],  # the script makes three steps
    }[how]
    # Storage so slow that it is the bottleneck on a busy machine, too.
    config = ExperimentConfig(
        batch_size=4, max_epochs=1, image_size=64, max_items=12, dataset="stand-in", wasted_time=0.3
    ).to_source()
    (script.parent / "config.py").write_text(
        f"{config}\nfrom workshop.bad_node import slow_one_rank\nslow_one_rank(0.3)\n"
    )
    arguments = [] if part.own_script else ["config.py", "--data", str(data.resolve())]
    subprocess.run(
        [sys.executable, "-m", *recorder, *start, *arguments],
        cwd=script.parent,
        env=os.environ | {OFFLINE_VARIABLE: "1"},
        capture_output=True,
        check=True,
    )


def answers(part: Part, script: Path) -> tuple[str, str]:
    """Return the right answer to a part's question about a script, and a wrong one."""
    if part.ranks > 1:
        slow = chosen_rank(part.ranks, script.absolute().parent)
        return str(slow), str((slow + 1) % part.ranks)
    if isinstance(part, Case):
        line = min(part.right_lines(script) or part.right_lines(part.untouched))
        return f"{line}:{part.cause}", f"1:{part.cause}"
    lines = [line.strip() for line in script.read_text().splitlines()]
    assert part.question
    # An answer that is the source of a line stands for the number of that line.
    right, wrong = part.question.right, part.question.wrong
    right, wrong = (str(lines.index(each) + 1) if each in lines else each for each in (right, wrong))
    return right, wrong
