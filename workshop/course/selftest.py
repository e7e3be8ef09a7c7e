"""Proves that the checks of the parts are right.

Each part that asks for a change fails on the untouched script, and passes with its solution and with the least that its
lesson promises. Each part that asks a
question fails with a wrong answer, without its profile and with a stale one, and passes with the right answer. Of a
part with many scripts, this holds for each of them. Every cheat is refused.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
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
from workshop.parts import FOLDER, Part, Question, all_parts, find_part
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
                yield from of_case(find_case(part, each), Path(temporary, each), data, cheats)
            if case_names(part):
                continue
            folder = Path(temporary, part.name)
            folder.mkdir()
            yield from questions(part, part.question, folder, data) if part.question else changes(part, folder, data)
            for cheat in sorted((CHEATS / part.name).glob("*.py")) if cheats else []:
                if cheat.stem != "variation":
                    yield _try(part, cheat, f"cheat {cheat.stem}", Outcome.OTHER_WORK, data, folder)


def changes(
    part: Part, folder: Path, data: Path, answer: str = "", unchanged: Outcome = Outcome.NOT_YET
) -> Iterator[Attempt]:
    """Try a part's change, with the right answer to its question, if it has one.

    `unchanged` is how the check of a script with nothing gained ends.
    """
    script = folder / part.script
    script.write_bytes(part.untouched.read_bytes())
    nothing = checks.CheckReason.NOTHING_CHANGED
    yield _try(part, script, "the untouched script", Outcome.NOT_YET, data, folder, answer, (nothing,))
    script.write_text(f"{part.untouched.read_text()}\nFAST = True\n")
    yield _try(part, script, "the script with nothing gained", unchanged, data, folder, answer)
    script.write_bytes(part.solution.read_bytes())
    yield _try(part, script, "its solution", Outcome.DONE, data, folder, answer)
    if part.change and part.change.least:
        script.write_bytes(without_fault(part.beginning, part.change.least).read_bytes())
        yield _try(part, script, "the least that its lesson promises", Outcome.DONE, data, folder, answer)


def questions(part: Part, question: Question, folder: Path, data: Path) -> Iterator[Attempt]:
    """Try a part that asks a question, and perhaps for a change, too, in a folder of its own."""
    script = folder / part.script
    script.write_bytes(part.untouched.read_bytes())
    right, wrong = answers(part, script)
    if not part.change:
        yield _silence(part, script)
    if question.profiled or question.recorded:
        yield _try(part, script, "without a profile", Outcome.NOT_YET, data, folder, right, MISSING)
        if question.recorded == "py-spy --idle":
            profile(part, "py-spy", script, data)
            kinds = (LineReason.WITHOUT_IDLE,)
            yield _try(part, script, "without --idle", Outcome.NOT_YET, data, folder, right, kinds)
        profile(part, question.recorded, script, data)
    yield _try(part, script, "a wrong answer", Outcome.NOT_YET, data, folder, wrong)
    if part.change:
        yield from changes(part, folder, data, right)
        return
    yield _try(part, script, "the right answer", Outcome.DONE, data, folder, right)
    if question.profiled or question.recorded:
        script.write_text("\n" + script.read_text())
        yield _try(part, script, "a stale profile", Outcome.NOT_YET, data, folder, right, STALE)


def of_case(case: Case, folder: Path, data: Path, cheats: bool) -> Iterator[Attempt]:
    """Try one script of a part with many, in a folder of its own."""
    hints = len(case.hints)
    yield Attempt(f"{_name(case)} has {HINTS} hints", f"{hints} hints", hints == HINTS)
    folder.mkdir()
    script = folder / case.script
    script.write_bytes(case.untouched.read_bytes())
    right, wrong_line = answers(case, script)
    assert case.question
    other = next(cause for cause in case.question.causes if cause != case.cause)
    wrong_cause = right.replace(case.cause, other)
    yield _try(case, script, "a wrong line", Outcome.NOT_YET, data, folder, wrong_line, (FaultReason.OTHER_LINE,))
    yield _try(case, script, "a wrong cause", Outcome.NOT_YET, data, folder, wrong_cause, (FaultReason.OTHER_CAUSE,))
    unchanged = Outcome.OTHER_WORK if case.cause == "float64" else Outcome.NOT_YET  # single precision is what is asked
    yield from changes(case, folder, data, right, unchanged)
    for cheat in sorted((CHEATS / case.name).glob("*.py")) if cheats else []:
        if {"no_results": case.prints or case.writes, "no_wait": case.storage}.get(cheat.stem, True):
            script.write_text(f"{cheat.read_text()}\n\n{case.solution.read_text()}")
            yield _try(case, script, f"cheat {cheat.stem}", Outcome.OTHER_WORK, data, folder)


def _name(part: Part) -> str:
    return f"{part.name} {part.case}" if isinstance(part, Case) else part.name


def _try(
    part: Part,
    script: Path,
    name: str,
    expected: Outcome,
    data: Path,
    folder: Path,
    answer: str = "",
    kinds: Collection[ReasonKind] = (),
) -> Attempt:
    """Check a script, which must end as expected, with a reason of one of the kinds, if any are given."""
    ask = None if part.change and not answer else lambda _: answer
    verdict = checks.check(part, script, data, say=lambda _: None, ask=ask, state=State(folder))
    found = f"{verdict.outcome.value} ({verdict.reasons[0]})"
    too_noisy = expected is Outcome.NOT_YET and verdict.outcome is Outcome.UNDECIDED and verdict.speed is not None
    is_named = not kinds or any(each.kind in kinds for reason in verdict.reasons for each in reason.parts)
    passed = (verdict.outcome is expected or too_noisy) and is_named
    return Attempt(f"{_name(part)}, {name}", found, passed)


def _silence(part: Part, script: Path) -> Attempt:
    """Check a part that asks a question without an answer, and without a terminal to ask at."""
    command = [*WORKSHOP, "check", part.name, "--script", str(script)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return Attempt(f"{part.name}, no answer", f"exit code {done.returncode}", done.returncode == EXIT_USAGE)


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
