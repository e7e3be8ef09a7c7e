"""The workshop judged by itself.

Each part that asks for a change fails on the untouched script and passes with its solution. Each part that asks a
question fails with a wrong answer, without its profile and with a stale one, and passes with the right answer. Every
cheat is refused.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workshop import judge
from workshop.errors import EXIT_USAGE
from workshop.experiment import ExperimentConfig
from workshop.harness.verdict import Outcome
from workshop.parts import FOLDER, SOLUTIONS, Part, all_parts, find_part
from workshop.pets.download import OFFLINE_VARIABLE
from workshop.state import State

CHEATS = FOLDER.parents[1] / "tests" / "cheats"
"""They come with a checkout, not with an installed package."""

HINTS = 3


@dataclass(frozen=True)
class Trial:
    """One thing that was tried."""

    what: str
    found: str
    passed: bool


def trials(data: Path) -> Iterator[Trial]:
    """Try everything, one after the other.

    Args:
        data: the data folder.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in all_parts():
            hints = len(part.hints)
            yield Trial(f"{part.name} has a lesson and {HINTS} hints", f"{hints} hints", hints == HINTS)
            yield from questions(part, folder / part.name, data) if part.question else changes(part, folder, data)
        for cheat in sorted(CHEATS.glob("*.py")):
            if cheat.stem != "variation":
                yield _try(find_part("part3"), cheat, f"cheat {cheat.stem}", Outcome.OTHER_WORK, data, folder)


def changes(part: Part, folder: Path, data: Path) -> Iterator[Trial]:
    """Try a part that asks for a change."""
    yield _try(part, SOLUTIONS / "part1.py", "the untouched script", Outcome.NOT_YET, data, folder)
    yield _try(part, part.solution, "its solution", Outcome.DONE, data, folder)


def questions(part: Part, folder: Path, data: Path) -> Iterator[Trial]:
    """Try a part that asks a question, in a folder that is not there yet."""
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(with_profile((SOLUTIONS / "part1.py").read_text(), part.profiled))
    right, wrong = (as_number(script, text) for text in (part.right, part.wrong))
    yield _silence(part, script)
    if part.profiled or part.recorded:
        yield _try(part, script, "without a profile", Outcome.NOT_YET, data, folder, right, "there is no ")
        if part.recorded == "py-spy":
            _record(script, data)
            yield _try(part, script, "without --idle", Outcome.NOT_YET, data, folder, right, "without --idle")
            _record(script, data, "--idle")
        elif part.recorded == "torch":
            _trace(script, data)
        else:
            _profile(script, data)
    yield _try(part, script, "a wrong answer", Outcome.NOT_YET, data, folder, wrong)
    yield _try(part, script, "the right answer", Outcome.DONE, data, folder, right)
    if part.profiled or part.recorded:
        script.write_text("\n" + script.read_text())
        yield _try(part, script, "a stale profile", Outcome.NOT_YET, data, folder, right, " is stale: ")


def _try(
    part: Part, script: Path, name: str, expected: Outcome, data: Path, folder: Path, answer: str = "", says: str = ""
) -> Trial:
    verdict = judge.check(part, script, data, say=lambda _: None, ask=lambda _: answer, state=State(folder))
    found = f"{verdict.outcome.value} ({verdict.reasons[0]})"
    return Trial(f"{part.name}, {name}", found, verdict.outcome is expected and says in verdict.reasons[0])


def _silence(part: Part, script: Path) -> Trial:
    """Without an answer, and without a terminal to ask at."""
    command = [sys.executable, "-m", "workshop", "check", part.name, "--script", str(script)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return Trial(f"{part.name}, no answer", f"exit code {done.returncode}", done.returncode == EXIT_USAGE)


def _profile(script: Path, data: Path) -> None:
    """By kernprof, as a participant does it."""
    _train(["-m", "kernprof", "-l", script.name], script, data)


def _record(script: Path, data: Path, *options: str) -> None:
    """By py-spy, as a participant does it."""
    _train(["-m", "workshop", "record", "py-spy", *options, "--", sys.executable, script.name], script, data)


def _trace(script: Path, data: Path) -> None:
    """By torch.profiler, as a participant does it; the script makes three steps here."""
    _train(["-m", "workshop", "record", "torch", "--wait", "0", "--warmup", "1", "--", script.name], script, data)


def _train(command: list[str], script: Path, data: Path) -> None:
    # Storage so slow that it is the bottleneck on a busy machine, too.
    config = ExperimentConfig(
        batch_size=4, max_epochs=1, image_size=64, max_items=12, dataset="stand-in", wasted_time=0.3
    )
    (script.parent / "config.py").write_text(config.to_source())
    subprocess.run(
        [sys.executable, *command, "config.py", "--data", str(data.resolve())],
        cwd=script.parent,
        env=os.environ | {OFFLINE_VARIABLE: "1"},
        capture_output=True,
        check=True,
    )


def with_profile(source: str, function: str) -> str:
    """A script in which a function carries `@profile`."""
    lines = source.splitlines()
    for number, line in enumerate(lines):
        if function and line.lstrip().startswith(f"def {function}(") and lines[number - 1].strip() != "@profile":
            indent = line[: len(line) - len(line.lstrip())]
            return "\n".join([*lines[:number], f"{indent}@profile", *lines[number:], ""])
    return source


def as_number(script: Path, answer: str) -> str:
    """An answer that is the source of a line, as the number of that line; any other as it is."""
    lines = [line.strip() for line in script.read_text().splitlines()]
    return str(lines.index(answer) + 1) if answer in lines else answer
