"""The parts of the workshop, a folder each: what a part teaches, its hints, and how it is checked.

    part3/README.md         the lesson
    part3/part.toml         the title, the hints, and what the check needs to know: see `Part`
    part5/cache_check.py    check(bench), for a part that asks for more than the same work in less time
    part9/lattice.py        a script of the part's own, in place of train.py
    part11/cases/           many scripts, and each participant gets a different one: see `workshop.parts.case`
    glossary.md             the words that the lessons explain only once: see `workshop.course.glossary`

Some parts ask for a change to the script; the solution is `solutions/<part>.py`. Others ask a question about it, and
some do both. The commands find a new part by its folder.
"""

import difflib
import re
import runpy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.judge.bench import Bench
    from workshop.judge.verdict import Verdict

FOLDER = Path(__file__).parent
HOME = FOLDER.parents[1]
"""The workshop's folder, with train.py, if it was installed from there."""

SOLUTIONS = HOME / "solutions"


@dataclass(frozen=True)
class ScriptChange:
    """What a part asks to be changed: the table `[change]` of its `part.toml`."""

    original: str = "part1"
    """The script in `solutions/` that the part starts from and is measured against, without ".py"."""

    target: float = 1.0
    """The speedup that the change must bring; 1 where that is not the point."""

    share: float = 0.8
    """On a machine where this share of the solution's speedup is less than `target`, it is what is asked for."""

    least: tuple[Mapping[str, str], ...] = ()
    """The smallest edits of the script at the part's beginning that its lesson promises to be enough, each as `old` and
    `new`; none where they are those of the solution."""

    allowed: float | None = None
    """How much slower the script may become, such as 0.1, in a part that asks for something else than speed."""

    raced: bool = True
    """Whether the script is raced, so that nothing is said of a race in a part without one."""

    judged_by: str = ""
    """A file in the part's folder whose `check(bench)` judges the change; empty for the same work in less time."""


@dataclass(frozen=True)
class Question:
    """What a part asks to be found out: the table `[question]` of its `part.toml`."""

    text: str
    answered_by: str
    """How the answer is judged: a key of `course.answers.JUDGES`."""

    causes: tuple[str, ...] = ()
    """The causes that an answer may name, if it names one."""

    profiled: str = ""
    """The function in whose line profile the answer is looked up."""

    recorded: str = ""
    """The recorder whose recording the answer is looked up in: "lines", "py-spy", "py-spy --idle" or "torch"; empty for
    kernprof."""

    right: str = ""
    """The right answer for the untouched script, or the source of the line; by it the workshop proves itself."""

    wrong: str = ""
    """A wrong answer."""

    edit: str = ""
    """What to do to the script once the question is answered, in a part that also asks for a change."""


@dataclass(frozen=True)
class Part:
    """One part, as its `part.toml` describes it; it has a change, a question or both."""

    name: str
    """The folder's name: "part3"."""

    folder: Path
    title: str
    hints: tuple[str, ...]
    """The hints, from a nudge to nearly the answer."""

    learned: str = ""
    """What a participant knows once the part is done, in two sentences."""

    now: str = ""
    """What to do with the script once the part is done: to edit it, to keep it, or to leave it alone."""

    teaches: tuple[str, ...] = ()
    """What one learns to find and fix here: causes of `workshop measure`, and topics of `workshop trace`."""

    change: ScriptChange | None = None
    question: Question | None = None

    script: str = "train.py"
    """The file that is edited. One that is called otherwise lies in the part's folder."""

    arguments: tuple[str, ...] = ()
    """The arguments of a script of the part's own, for a run as long as the judge likes."""

    steps: int = 0
    """The number of optimizer steps in an epoch of the check, for a script of the part's own."""

    ranks: int = 1
    """The number of processes that the script is to train with, as torchrun starts them."""

    batch_size: int = 4

    @property
    def lesson(self) -> Path:
        """The file that holds the lesson."""
        return self.folder / "README.md"

    @property
    def number(self) -> str:
        """The part's number as text, such as "3"."""
        return self.name.removeprefix("part")

    @property
    def solutions(self) -> Path:
        """The folder of the solutions."""
        return self.folder.parents[2] / SOLUTIONS.name

    @property
    def solution(self) -> Path:
        """The script that passes the check; there is no such file for a part that only asks a question."""
        return self.solutions / f"{self.name}.py"

    @property
    def solution_name(self) -> str:
        """What the solution is called in the text of a comparison."""
        return f"solutions/{self.name}.py"

    @property
    def own_script(self) -> bool:
        """Whether the participant edits another script than train.py."""
        return self.script != "train.py"

    @property
    def cases(self) -> Path:
        """The folder of scripts, one for each participant; there is none where all get the same script."""
        return self.folder / "cases"

    @property
    def original_script(self) -> Path:
        """The script that the participant's is measured against."""
        change = self.change or ScriptChange()
        return self.folder / self.script if self.own_script else self.solutions / f"{change.original}.py"

    @property
    def beginning(self) -> Path:
        """The script that the part begins with."""
        return self.original_script

    @property
    def untouched(self) -> Path:
        """The script as a participant first gets it."""
        return self.folder / self.script if self.own_script else self.solutions / "part1.py"

    @property
    def has_race(self) -> bool:
        """Whether a script is raced in its check."""
        return self.change is not None and self.change.raced

    def check(self, bench: "Bench") -> "Verdict":
        """Judge the change on a bench that has both scripts ready."""
        judged_by = self.change and self.change.judged_by
        return runpy.run_path(str(self.folder / judged_by))["check"](bench) if judged_by else bench.judge()


def all_parts(folder: Path = FOLDER) -> list[Part]:
    """Return every part in a folder, in the order of their names' numbers."""
    parts = []
    for path in folder.glob("*/part.toml"):
        values = read_toml(path)
        for name, kind in (("change", ScriptChange), ("question", Question)):
            if name in values:
                values[name] = kind(**_with_tuples(values[name]))
        parts.append(Part(name=path.parent.name, folder=path.parent, **values))
    return sorted(parts, key=lambda part: (len(part.name), part.name))


def read_toml(path: Path) -> dict[str, Any]:
    """Return what describes a part or a case, with tuples for lists."""
    values = _with_tuples(tomllib.loads(path.read_text(encoding="utf-8")))
    return values | {"hints": tuple(hint.strip() for hint in values["hints"])}


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def find_part(name: str, folder: Path = FOLDER) -> Part:
    """Return the part of that name, or of that number.

    Raises:
        WorkshopError: there is no such part.
    """
    parts = all_parts(folder)
    for part in parts:
        if name in (part.name, part.number):
            return part
    same_number = [part.name for part in parts if re.findall(r"\d+", name) == [part.number]]
    close = difflib.get_close_matches(name, same_number, n=1)
    says = f"did you mean {close[0]}?" if close else f"there are {parts[0].name} to {parts[-1].name}"
    raise WorkshopError(f"there is no part {name!r}; {says}")


def teaching(topic: str) -> list[Part]:
    """Return the parts that teach a cause or a topic."""
    return [part for part in all_parts() if topic in part.teaches]


def taught_in(topic: str) -> str:
    """Return the parts that teach a cause or a topic, such as "part 3" or "parts 3 to 5"; "" if none does."""
    numbers = [part.number for part in teaching(topic)]
    if len(numbers) < 2:
        return f"part {numbers[0]}" if numbers else ""
    return f"parts {numbers[0]} to {numbers[-1]}"
