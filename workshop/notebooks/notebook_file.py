"""A notebook as it lies on the disk: its code cells, read without a package for it, as an `.ipynb` is JSON."""

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError

NOTEBOOK_SUFFIX = ".ipynb"

SCRIPT_SUFFIXES = (".py", NOTEBOOK_SUFFIX)
"""The ends of the names of what is run as a script."""

SKIPPED = "skip-measure"
"""The tag of a cell that is left out."""

SESSION_FOLDER = "workshop-session-"
"""The beginning of the name of a folder in which a notebook is a session: the cells that a kernel has run, in order.

The last cell is what the session is about. Each is called by the number beside it, and by nothing else.
"""

_CELL = re.compile(rf"(?P<notebook>.+{re.escape(NOTEBOOK_SUFFIX)})/(?:cell (?P<cell>\d+)|In \[(?P<ran_as>\d+)\])\.py")


@dataclass(frozen=True)
class Cell:
    """A code cell with something in it."""

    number: int
    """Its place among such cells, from 1: after "Restart and run all", the number that stands beside it; of a session,
    that number in any case."""
    ran_as: int | None
    """The number beside it, In [12], from when it was run last; None if it was not."""
    source: str
    tags: tuple[str, ...]
    index: int
    """Its place among all cells of the file, from 0."""
    in_session: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        ran_as = f"In [{self.ran_as}]"
        if self.in_session:
            return ran_as
        return f"cell {self.number} ({ran_as})" if self.ran_as else f"cell {self.number}"


@dataclass(frozen=True)
class Notebook:
    """A notebook of Python with at least one code cell."""

    path: Path
    cells: Sequence[Cell]

    def file_of(self, cell: Cell) -> str:
        """Return the name of the file that a cell is to Python; there is none on the disk."""
        name = cell.name if cell.in_session else f"cell {cell.number}"
        return f"{os.path.abspath(self.path)}/{name}.py"

    @property
    def is_session(self) -> bool:
        """Whether it is what a kernel has run."""
        return is_session(self.path)


def cell_of(file: str) -> tuple[str, int] | None:
    """Return the notebook and the number of the cell whose file, as Python has it, this is; None for other files."""
    found = _CELL.fullmatch(file)
    return (found["notebook"], int(found["cell"] or found["ran_as"])) if found else None


def is_session(path: Path | str) -> bool:
    """Return whether a notebook is a session, also one that is no longer there."""
    return Path(path).parent.name.startswith(SESSION_FOLDER)


def name_of(script: Path | str) -> str:
    """Return what a script is called: by its file, or a session by its last cell: "In [12]"."""
    return Path(script).stem if is_session(script) else Path(script).name


def as_typed(script: str) -> str:
    """Return what a script was called by whoever typed it, who has typed a session's last cell."""
    return name_of(script) if is_session(script) else script


def read(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        WorkshopError: it is none, or has no cell that could be run.
    """
    return _read(str(path), path.stat().st_mtime_ns) if path.is_file() else _missing(path)


def _missing(path: Path) -> Notebook:
    raise WorkshopError(f"{path.absolute()} is not a file; name a notebook")


@lru_cache(maxsize=16)
def _read(path: str, _written_ns: int) -> Notebook:
    found = as_json(Path(path))
    try:
        language, cells = _language(found), _cells(found, is_session(path))
    except (AttributeError, TypeError):
        raise WorkshopError(f"{path} is not a notebook: its cells are not as Jupyter writes them") from None
    if language.lower() not in ("python", "ipython"):
        raise WorkshopError(f"{path} is a notebook of {language}, not of Python; name one of Python")
    if not cells:
        raise WorkshopError(f"{path} has no code cell with anything in it; name a notebook that trains")
    return Notebook(Path(path), cells)


def _language(found: dict[str, Any]) -> str:
    about = found.get("metadata", {})
    return about.get("language_info", {}).get("name") or about.get("kernelspec", {}).get("language") or "python"


def _cells(found: dict[str, Any], in_session: bool) -> list[Cell]:
    cells: list[Cell] = []
    for index, each in enumerate(found["cells"]):
        source = _text(each.get("source", ""))
        if each.get("cell_type") == "code" and source.strip():
            tags = tuple(each.get("metadata", {}).get("tags", ()))
            ran_as = each.get("execution_count")
            cells.append(Cell(ran_as if in_session else len(cells) + 1, ran_as, source, tags, index, in_session))
    return cells


def as_json(path: Path) -> dict[str, Any]:
    """Return all that a notebook holds.

    Raises:
        WorkshopError: it is no notebook, or one of a format before 4.
    """
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise WorkshopError(f"{path} is not a notebook: it is no JSON ({error})") from None
    if isinstance(found, dict) and "worksheets" in found:
        raise WorkshopError(f"{path} has an old format: jupyter nbconvert --to notebook --inplace {path} brings it up")
    if not isinstance(found, dict) or not isinstance(found.get("cells"), list):
        raise WorkshopError(f"{path} is not a notebook: it is JSON without cells")
    return found


def _text(source: str | Collection[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def with_source(path: Path, number: int, source: str) -> bytes:
    """Return the content of a notebook in which one cell has another source, and nothing else has changed."""
    written, found = path.read_bytes().decode(), as_json(path)
    cell = found["cells"][read(path).cells[number - 1].index]
    cell["source"] = source if isinstance(cell["source"], str) else source.splitlines(keepends=True)
    indent = re.match(r"\{\r?\n([ \t]+)", written)
    text = json.dumps(found, indent=indent[1] if indent else None, ensure_ascii=written.isascii())
    newline = "\r\n" if "\r\n" in written else "\n"
    return (text.replace("\n", newline) + newline * written.endswith("\n")).encode()
