"""A case: one of the many scripts of a part in which each participant gets another one.

    part11/cases/whale_calls/whale_calls.py   the script as it is handed out, with one fault
    part11/cases/whale_calls/fixed.py        the same work without the fault
    part11/cases/whale_calls/case.toml        the fault, the hints and what is said in the end: see `Case`

Nothing else knows of a case: a new one is a new folder.
"""

import random
import runpy
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError
from workshop.judge.verdict import Verdict
from workshop.parts import Part, find_part

if TYPE_CHECKING:
    from workshop.judge.bench import Bench


@dataclass(frozen=True)
class Case(Part):
    """A part with one of its scripts.

    What is asked for is the same work in hardly more time than the fixed script takes, so that script is the original.
    """

    case: str = ""
    """The folder's name, and that of the script without ".py"."""

    cause: str = ""
    """The right one of the part's `causes`."""

    lines: tuple[str, ...] = ()
    """Pieces of text; a line of the script that has one of them is a right answer."""

    prints: tuple[str, ...] = ()
    """What a script must print in its first hundred steps: a result that fixing must not leave out."""

    writes: tuple[str, ...] = ()
    """The files that it must write in its first hundred steps, below the folder that it runs in."""

    storage: str = ""
    """The folder, below the one that it runs in, of files that stand for a slow storage."""

    storage_s: float = 0.0
    """The seconds that each read of such a file must have slept."""

    explanation: str = ""
    """What the fault was, how one sees it, and where one meets it; shown in the end."""

    @property
    def home(self) -> Path:
        """The folder of this case."""
        return self.cases / self.case

    @property
    def solution(self) -> Path:
        """The script without the fault."""
        return self.home / "fixed.py"

    @property
    def solution_name(self) -> str:
        """What the script without the fault is called in the text of a comparison."""
        return f"{self.script} fixed"

    @property
    def untouched(self) -> Path:
        """The script as it is handed out."""
        return self.home / self.script

    @property
    def beginning(self) -> Path:
        """The script as it is handed out."""
        return self.untouched

    @property
    def original_script(self) -> Path:
        """The script without the fault: the participant's is measured against it."""
        return self.solution

    def right_lines(self, script: Path) -> set[int]:
        """Return the numbers of the lines of a script, of any stage, that are a right answer."""
        lines = enumerate(script.read_text(encoding="utf-8").splitlines(), start=1)
        return {number for number, line in lines if any(piece in line for piece in self.lines)}

    def check(self, bench: "Bench") -> Verdict:
        """Judge the change on a bench that has the participant's script and the fixed one ready."""
        verdict: Verdict = runpy.run_path(str(self.folder / "check.py"))["check"](bench, self)
        return verdict


def names(part: Part) -> list[str]:
    """Return the names of a part's cases, sorted; none for a part in which all get the same script."""
    return sorted(path.parent.name for path in part.cases.glob("*/case.toml"))


def find_case(part: Part, name: str) -> Case:
    """Return a part with the case of that name.

    Raises:
        WorkshopError: there is no such case.
    """
    path = part.cases / name / "case.toml"
    if not path.is_file():
        raise WorkshopError(f"{part.name} has no script {name!r}; there are {', '.join(names(part))}")
    if isinstance(part, Case):
        part = find_part(part.name, part.folder.parent, part.solutions)
    values: dict[str, Any] = {field.name: getattr(part, field.name) for field in fields(part)}
    values |= {"case": name, "script": f"{name}.py"} | tomllib.loads(path.read_text(encoding="utf-8"))
    values["question"] = f"{part.question} The causes are {', '.join(part.causes)}."
    values["hints"] = tuple(hint.strip() for hint in values["hints"])
    for each in ("lines", "prints", "writes"):
        values[each] = tuple(values.get(each, ()))
    return Case(**values)


def in_order_of(seed: int, of: Sequence[str]) -> list[str]:
    """Return names in the order that belongs to a seed: seed 1 begins with the first, seed 2 with the second."""
    first = of[(seed - 1) % len(of)]
    others = [name for name in of if name != first]
    random.Random(seed).shuffle(others)
    return [first, *others]
