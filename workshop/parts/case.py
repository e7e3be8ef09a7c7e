"""A case: one of the many scripts of a part in which each participant gets another one.

    part11/cases/whale_calls/whale_calls.py   the script as it is handed out, with one fault
    part11/cases/whale_calls/case.toml        the fault, its fix, the hints and what is said in the end: see `Case`

The commands find a new case by its folder.
"""

import runpy
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from workshop.errors import WorkshopError
from workshop.judge.verdict import Verdict
from workshop.parts import Part, find_part, read_toml

if TYPE_CHECKING:
    from workshop.judge.bench import Bench


@dataclass(frozen=True)
class Case(Part):
    """A part with one of its scripts.

    The participant's script must do the same work in hardly more time than the fixed script, which is the original.
    """

    case: str = ""
    """The folder's name, and that of the script without ".py"."""

    cause: str = ""
    """The right one of the question's `causes`."""

    lines: tuple[str, ...] = ()
    """Pieces of text; a line of the script that has one of them is a right answer."""

    prints: tuple[str, ...] = ()
    """What a script must print in its first hundred steps: a result that fixing must not leave out."""

    writes: tuple[str, ...] = ()
    """The files that it must write in its first hundred steps, below the folder that it runs in."""

    storage: str = ""
    """The folder, below the one that it runs in, whose files imitate slow storage."""

    storage_s: float = 0.0
    """The seconds that each read of such a file must have slept."""

    explanation: str = ""
    """What the fault was, how to see it, and where it is common; shown at the end."""

    fix: tuple[Mapping[str, str], ...] = ()
    """What takes the fault away: see `without_fault`."""

    @cached_property
    def solution(self) -> Path:
        """The script without the fault, in a temporary folder."""
        return without_fault(self.untouched, self.fix)

    @property
    def solution_name(self) -> str:
        """What the script without the fault is called in the text of a comparison."""
        return f"{self.script} fixed"

    @property
    def untouched(self) -> Path:
        """The script as it is handed out."""
        return self.cases / self.case / self.script

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
        assert self.change
        verdict: Verdict = runpy.run_path(str(self.folder / self.change.judged_by))["check"](bench, self)
        return verdict


def case_names(part: Part) -> list[str]:
    """Return the names of a part's cases, sorted; none for a part in which all get the same script."""
    return sorted(path.parent.name for path in part.cases.glob("*/case.toml"))


def find_case(part: Part, name: str) -> Case:
    """Return a part with the case of that name.

    Raises:
        WorkshopError: there is no such case.
    """
    path = part.cases / name / "case.toml"
    if not path.is_file():
        raise WorkshopError(f"{part.name} has no script {name!r}; there are {', '.join(case_names(part))}")
    if isinstance(part, Case):
        part = find_part(part.name, part.folder.parent)
    assert part.question
    text = f"{part.question.text} The causes are {', '.join(part.question.causes)}."
    values = vars(part) | read_toml(path) | {"case": name, "script": f"{name}.py"}
    values["question"] = replace(part.question, text=text)
    return Case(**values)


def without_fault(script: Path, fix: Iterable[Mapping[str, str]]) -> Path:
    """Write a script without its fault to a temporary folder, as `NAME_fixed.py`, and return its path.

    Args:
        script: The script with the fault.
        fix: Pieces that occur once in the script, each as `old`, and what replaces it, as `new`.

    Raises:
        WorkshopError: a piece that the fix replaces is not in the script, or more than once.
    """
    source = script.read_text(encoding="utf-8")
    for old, new in ((each["old"], each["new"]) for each in fix):
        if source.count(old) != 1:
            raise WorkshopError(f"{script.name} has this {source.count(old)} times, and not once:\n{old}")
        source = source.replace(old, new)
    path = Path(_temporary_folder().name, f"{script.stem}_fixed.py")
    path.write_text(source, encoding="utf-8")
    return path


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is deleted when this process ends."""
    return tempfile.TemporaryDirectory(prefix="workshop-fixed-")
