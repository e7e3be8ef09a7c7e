"""The parts of the workshop, a folder each: what a part teaches, its hints, and how it is checked.

    part3/README.md     the lesson
    part3/part.toml     the title, the hints, and what the check needs to know: see `Part`
    part5/check.py      check(bench), for a part that asks for more than the same work in less time
    part9/lattice.py    a script of the part's own, in the place of train.py
    part11/cases/       many scripts, of which each participant gets another one: see `workshop.parts.case`

Some parts ask for a change to the script; the solution is `solutions/<part>.py`. Others ask a question about it, and
some do both. Nothing else knows of a part: a new one is a new folder, and a solution if there is something to change.
"""

import difflib
import runpy
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.judge.bench import Bench
    from workshop.judge.verdict import Verdict

FOLDER = Path(__file__).parent
SOLUTIONS = FOLDER.parents[1] / "solutions"


@dataclass(frozen=True)
class Part:
    """One part, as its `part.toml` describes it."""

    name: str
    """The folder's name: "part3"."""

    folder: Path
    title: str
    hints: tuple[str, ...]
    """The hints, from a nudge to nearly the answer."""

    question: str = ""
    """What the participant is asked; empty where there is only something to change."""

    answered_by: str = ""
    """How the answer is judged: a key of `course.answers.JUDGES`."""

    causes: tuple[str, ...] = ()
    """The causes that an answer may name, for a part that asks for one."""

    profiled: str = ""
    """The function in whose line profile the answer is looked up."""

    recorded: str = ""
    """The recorder whose recording the answer is looked up in: "lines", "py-spy", "py-spy --idle" or "torch"; empty for
    kernprof."""

    right: str = ""
    """The right answer for the untouched script, or the source of the line; by it the workshop proves itself."""

    wrong: str = ""
    """A wrong answer."""

    script: str = "train.py"
    """The file that is edited. One that is called otherwise lies in the part's folder."""

    arguments: tuple[str, ...] = ()
    """The arguments of a script of the part's own, for a run as long as the judge likes."""

    steps: int = 0
    """The number of optimizer steps in an epoch of the check, for a script of the part's own."""

    ranks: int = 1
    """The number of processes that the script is to train with, as torchrun starts them."""

    original: str = "part1"
    """The script in `solutions/` that this part starts from and is measured against, without ".py"."""

    items: int = 39
    """The least number of items in an epoch of the check. Of some of the 37 classes there are two, then."""

    batch_size: int = 4

    target: float = 1.0
    """The speedup over the original that is asked for; 1 where that is not the point."""

    solutions: Path = SOLUTIONS

    @property
    def lesson(self) -> Path:
        """The file that holds the lesson."""
        return self.folder / "README.md"

    @property
    def number(self) -> str:
        """The part's number as text, such as "3"."""
        return self.name.removeprefix("part")

    @property
    def solution(self) -> Path:
        """The script that passes the check; there is no such file for a part that only asks a question."""
        return self.solutions / f"{self.name}.py"

    @property
    def solution_name(self) -> str:
        """What the solution is called in the text of a comparison."""
        return f"solutions/{self.name}.py"

    @property
    def changes(self) -> bool:
        """Whether the part asks for a change to the script."""
        return self.solution.is_file() and self.solution != self.untouched

    @property
    def own_script(self) -> bool:
        """Whether the participant edits another script than train.py."""
        return self.script != "train.py"

    @property
    def cases(self) -> Path:
        """The folder of the scripts of which each participant gets one; there is none where all get the same."""
        return self.folder / "cases"

    @property
    def original_script(self) -> Path:
        """The script that the participant's is measured against."""
        return self.folder / self.script if self.own_script else self.solutions / f"{self.original}.py"

    @property
    def beginning(self) -> Path:
        """The script that the part begins with."""
        return self.original_script

    @property
    def untouched(self) -> Path:
        """The script as a participant first gets it."""
        return self.folder / self.script if self.own_script else self.solutions / "part1.py"

    def check(self, bench: "Bench") -> "Verdict":
        """Judge the change on a bench that has both scripts ready, by the part's check.py if there is one."""
        own = self.folder / "check.py"
        return runpy.run_path(str(own))["check"](bench) if own.is_file() else bench.judge()


def all_parts(folder: Path = FOLDER, solutions: Path = SOLUTIONS) -> list[Part]:
    """Return every part in a folder, in the order of their names' numbers."""
    parts = []
    for path in folder.glob("*/part.toml"):
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        values["hints"] = tuple(hint.strip() for hint in values["hints"])
        for name in ("arguments", "causes"):
            values[name] = tuple(values.get(name, ()))
        parts.append(Part(name=path.parent.name, folder=path.parent, solutions=solutions, **values))
    return sorted(parts, key=lambda part: (len(part.name), part.name))


def find_part(name: str, folder: Path = FOLDER, solutions: Path = SOLUTIONS) -> Part:
    """Return the part of that name, or of that number.

    Raises:
        WorkshopError: there is no such part.
    """
    parts = all_parts(folder, solutions)
    for part in parts:
        if name in (part.name, part.number):
            return part
    names = [part.name for part in parts]
    close = difflib.get_close_matches(name, names, n=1)
    says = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise WorkshopError(f"there is no part {name!r}; {says}")
