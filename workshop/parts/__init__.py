"""The parts of the workshop, a folder each: what it teaches, its hints, and how it is checked.

    part3/README.md     the lesson
    part3/part.toml     title, hints, and what the check needs to know: see `Part`
    part3/check.py      answer(observation) where the part asks a question, check(bench) where it asks for a change;
                        both return a verdict
    part9/lattice.py    a script of the part's own, in the place of train.py

Some parts ask for a change to the script; the solution is `solutions/<part>.py`. Others ask a question about it, and
some do both. Nothing else knows of a part: a new one is a new folder, and a solution if there is something to change.
"""

import importlib.util
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workshop.errors import WorkshopError

if TYPE_CHECKING:
    from workshop.harness.verdict import Verdict

FOLDER = Path(__file__).parent
SOLUTIONS = FOLDER.parents[1] / "solutions"


@dataclass(frozen=True)
class Part:
    """One part, as its `part.toml` says."""

    name: str
    """The folder's: "part3"."""

    folder: Path
    title: str
    hints: tuple[str, ...]
    """From a nudge to nearly the answer."""

    question: str = ""
    """What the participant is to observe; empty where there is only something to change."""

    profiled: str = ""
    """The function in whose line profile the answer is looked up, if it is the number of a line."""

    recorded: str = ""
    """What the answer is looked up in: a recording by "py-spy" or "py-spy --idle", or a trace of "torch"."""

    right: str = ""
    """The right answer for the untouched script, or the source of the line; by it the workshop proves itself."""

    wrong: str = ""
    """A wrong one."""

    script: str = "train.py"
    """The file that is edited. One that is called otherwise lies in the part's folder."""

    arguments: tuple[str, ...] = ()
    """Of a script of the part's own, for a run as long as the judge likes."""

    steps: int = 0
    """Of the optimizer in an epoch of the check, for a script of the part's own."""

    ranks: int = 1
    """Processes that the script is to train with, as torchrun starts them."""

    original: str = "part1"
    """The script in `solutions/` that this part starts from and is measured against, without ".py"."""

    items: int = 31
    """In an epoch of the check."""

    batch_size: int = 4

    target: float = 1.0
    """How many times as fast as the original the participant's script must be; 1 where that is not the point."""

    solutions: Path = SOLUTIONS

    @property
    def lesson(self) -> Path:
        """The text."""
        return self.folder / "README.md"

    @property
    def number(self) -> str:
        """As people say it: "3"."""
        return self.name.removeprefix("part")

    @property
    def solution(self) -> Path:
        """The script that passes; a part that only asks a question has none."""
        return self.solutions / f"{self.name}.py"

    @property
    def changes(self) -> bool:
        """Whether the script is to be changed."""
        return self.solution.is_file() and self.solution != self.untouched

    @property
    def own_script(self) -> bool:
        """Whether it is not train.py that is edited."""
        return self.script != "train.py"

    @property
    def original_script(self) -> Path:
        """The script to be faster than."""
        return self.folder / self.script if self.own_script else self.solutions / f"{self.original}.py"

    @property
    def untouched(self) -> Path:
        """The script as a participant first gets it."""
        return self.folder / self.script if self.own_script else self.solutions / "part1.py"

    @property
    def answer(self) -> "Callable[[Any], Verdict]":
        """The function that judges the answer."""
        return self._judges.answer

    @property
    def check(self) -> "Callable[[Any], Verdict]":
        """The function that judges the change."""
        return self._judges.check

    @cached_property
    def _judges(self) -> ModuleType:
        return _load(self.folder / "check.py")


def all_parts(folder: Path = FOLDER, solutions: Path = SOLUTIONS) -> list[Part]:
    """Every part in a folder, in the order of their names' numbers."""
    parts = [_read(path.parent, solutions) for path in folder.glob("*/part.toml")]
    return sorted(parts, key=lambda part: (len(part.name), part.name))


def find_part(name: str, folder: Path = FOLDER, solutions: Path = SOLUTIONS) -> Part:
    """The part of that name, or of that number.

    Raises:
        WorkshopError: there is none.
    """
    parts = all_parts(folder, solutions)
    for part in parts:
        if name in (part.name, part.number):
            return part
    raise WorkshopError(f"there is no part {name!r}; there are {', '.join(part.name for part in parts)}")


def _read(folder: Path, solutions: Path) -> Part:
    values = tomllib.loads((folder / "part.toml").read_text(encoding="utf-8"))
    values["hints"] = tuple(hint.strip() for hint in values["hints"])
    values["arguments"] = tuple(values.get("arguments", ()))
    return Part(name=folder.name, folder=folder, solutions=solutions, **values)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"workshop.parts.{path.parent.name}.check", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
