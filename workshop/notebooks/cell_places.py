"""A line as people name it: "train.py:12", or in a notebook "cell 7 (In [12]), line 3"."""

import json
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from workshop.errors import WorkshopError
from workshop.notebooks.magics import as_python
from workshop.notebooks.notebook_file import Cell, cell_of, is_session, name_of, read


def place(file: str, line: int | None, path: bool = False) -> str:
    """Return the name of a line, or of a file without one; with the path of a file that is no cell, if it is wanted."""
    if cell := cell_of(file):
        name = cell_name(*cell)
        return f"{name}, line {line}" if line else name
    name = file if path else PurePath(file).name
    return f"{name}:{line}" if line else name


def line_of(file: str, line: int) -> str:
    """Return the name of a line within a sentence: "line 12 of train.py"."""
    return place(file, line) if cell_of(file) else f"line {line} of {PurePath(file).name}"


def title(file: str) -> str:
    """Return the name of a file above its lines: its path, or the notebook's with the name of the cell."""
    cell = cell_of(file)
    if cell and is_session(cell[0]):
        return cell_name(*cell)
    return f"{cell[0]}, {cell_name(*cell)}" if cell else file


def cell_name(notebook: str, number: int) -> str:
    """Return the name of a cell, with the number beside it as the notebook is now."""
    if is_session(notebook):
        return f"In [{number}]"
    cell = _cell(notebook, number)
    return cell.name if cell else f"cell {number}"


def cell_source(file: str) -> str:
    """Return what Python runs of a cell, as the notebook is now; nothing of other files."""
    cell = cell_of(file)
    found = _cell(*cell) if cell else None
    return as_python(found.source).source if found else ""


def _cell(notebook: str, number: int) -> Cell | None:
    with suppress(WorkshopError, OSError):  # it may be elsewhere by now
        return next((each for each in read(Path(notebook)).cells if each.number == number), None)
    return None


def with_cells(values: Any) -> Any:
    """Return plain values for JSON in which a place in a notebook has its notebook as the file, and the cell beside."""
    if isinstance(values, list | tuple):
        return [with_cells(each) for each in values]
    if not isinstance(values, dict):
        return values
    found = {name: with_cells(each) for name, each in values.items()}
    if isinstance(file := found.get("file"), str) and (cell := cell_of(file)):
        (notebook, number), known = cell, _cell(*cell)
        if is_session(notebook):  # which is nowhere on the disk once it was looked at
            return found | {"file": name_of(notebook), "cell": number, "cell_ran_as": number}
        found |= {"file": notebook, "cell": number, "cell_ran_as": known.ran_as if known else None}
    return found


def line_in_file(file: str, line: int | None) -> tuple[str, int | None]:
    """Return the file on the disk and the line in its text, as formats have it that know nothing of cells."""
    if not (cell := cell_of(file)):
        return file, line
    notebook, number = cell
    known = _cell(notebook, number)
    return notebook, _line_of_json(Path(notebook), known, line) if known and line else None


def _line_of_json(path: Path, cell: Cell, line: int) -> int | None:
    """The line of JSON that a line of a cell stands in; None where the JSON is written in one line.

    The sources of the cells stand in their order, and each line in one of the file's own.
    """
    text, at = path.read_text(encoding="utf-8").splitlines(), 0
    stripped = [each.strip().rstrip(",") for each in text]
    for each in read(path).cells[: cell.number]:
        lines = each.source.splitlines(keepends=True)
        plain = [json.dumps(source, ensure_ascii=False) for source in lines]
        escaped = list(map(json.dumps, lines))
        while at < len(text) and stripped[at : at + len(lines)] not in (plain, escaped):
            at += 1
        if each.number == cell.number:
            return at + line if at < len(text) else None
        at += len(lines)
    return None
