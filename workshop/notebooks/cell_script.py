"""A notebook as a file that Python can run: the cells in order, each under the name by which it is found again."""

import ast
import json
import linecache
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.notebooks.magics import CellCode, as_python
from workshop.notebooks.notebook_file import NOTEBOOK_SUFFIX, SCRIPT_SUFFIXES, SKIPPED, Cell, Notebook, name_of, read
from workshop.terminal import some_of

START = "from workshop.probe.cell_runner import run\n\nrun(__file__, globals())\n"
"""The text of the file that Python runs."""

CELLS = "cells.json"
"""The file beside it with the name and the source of each cell."""

FOLDER = "workshop-notebook-"
"""The beginning of the name of its folder."""

_folders: list[tempfile.TemporaryDirectory[str]] = []
"""They are removed when this process ends."""

_chosen: set[int] = set()
"""The numbers of the cells to run, as the command of this process says; empty for all."""


def choose(numbers: str) -> None:
    """Run only the cells of these numbers, such as "1-7,9", of each notebook from now on; all with "".

    Raises:
        ValueError: they are none.
    """
    _chosen.clear()
    for each in numbers.split(",") if numbers else ():
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", each)
        if not found or not (those := range(int(found[1]), int(found[2] or found[1]) + 1)):
            raise ValueError(numbers)
        _chosen.update(those)


def require_notebook(script: str) -> None:
    """Raise an error if cells were chosen of what is no notebook."""
    if _chosen and not script.endswith(NOTEBOOK_SUFFIX):
        raise WorkshopError(f"--cells is for notebooks, and {Path(script).name} is none; leave it out")


def cells_to_run(notebook: Notebook) -> Sequence[Cell]:
    """Return the cells that are not left out; the last one of a session never is.

    Raises:
        WorkshopError: all are, or there is no such cell.
    """
    last = notebook.cells[-1].number
    if _chosen and max(_chosen) > last and not notebook.is_session:
        raise WorkshopError(f"{notebook.path} has no cell {max(_chosen)}; the last one is cell {last}")
    chosen = _chosen | {last} if _chosen and notebook.is_session else _chosen
    wanted = [each for each in notebook.cells if SKIPPED not in each.tags and (not chosen or each.number in chosen)]
    if not wanted:
        cells = f"it has {len(notebook.cells)}"
        raise WorkshopError(f"no cell of {notebook.path} is left to run; {cells}, some may have the tag {SKIPPED}")
    return wanted


def runnable(command: Sequence[str]) -> list[str]:
    """Return a command whose script, if it is a notebook, is replaced by what runs its cells, and is named like it."""
    words = list(command)
    scripts = (at for at, word in enumerate(words) if word.endswith(SCRIPT_SUFFIXES) and Path(word).is_file())
    if (at := next(scripts, None)) is not None and words[at].endswith(NOTEBOOK_SUFFIX):
        words[at] = _started(os.path.abspath(words[at]))
    return words


def notes(path: Path) -> list[str]:
    """Say what of a notebook is not run; nothing of other files.

    Of the earlier cells of a session, the kernel has run the shell lines and magics, with all that they change.
    """
    if path.suffix != NOTEBOOK_SUFFIX or not path.is_file():
        return []
    notebook, said = read(path), []
    for cell in (to_run := cells_to_run(notebook)):
        code = as_python(cell.source)
        skipped = code.takes_value if _is_earlier(notebook, cell) else code.skipped
        said += [f"{cell.name}, line {line}: {text}" for line, text in skipped]
    name = name_of(path)
    counted = f"{name}: {len(to_run)} of {len(notebook.cells)} cells are run"
    not_run = f"{name}: not run: {some_of(said)}"
    return [counted] * (len(to_run) < len(notebook.cells)) + [not_run] * bool(said)


def _is_earlier(notebook: Notebook, cell: Cell) -> bool:
    """Whether it is a cell of a session before the one that is looked at."""
    return notebook.is_session and cell != notebook.cells[-1]


def noted(path: Path, numbers: str | None = None) -> list[str]:
    """Say the same of a notebook of which only some cells are run."""
    try:
        choose(numbers or "")
        return notes(path)
    except (ValueError, WorkshopError):  # of which the command tells
        return []
    finally:
        choose("")


@cache
def _started(path: str) -> str:
    return start_of(read(Path(path)))


def start_of(notebook: Notebook) -> str:
    """Make the file that runs the cells of a notebook, and return its path.

    A session runs in the present folder, as its kernel does, and what is looked at begins with its last cell.

    Raises:
        WorkshopError: a cell needs the front end.
    """
    cells = []
    for cell in cells_to_run(notebook):
        code, file = as_python(cell.source), notebook.file_of(cell)
        for line, text, needs in [] if _is_earlier(notebook, cell) else _hindrances(code):
            where = f"{cell.name}, line {line}" + f" of {notebook.path.name}" * (not notebook.is_session)
            how = (
                "do that in a cell before" if notebook.is_session else f"leave it out with --cells or the tag {SKIPPED}"
            )
            raise WorkshopError(f"{where} needs {needs}: {text}; {how}")
        cells.append((file, code.source))
        linecache.cache[file] = (len(code.source), None, code.source.splitlines(keepends=True), file)  # as IPython does
    _folders.append(folder := tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True))
    path, is_session = os.path.abspath(notebook.path), notebook.is_session
    found = {
        "notebook": path,
        "folder": os.getcwd() if is_session else os.path.dirname(path),
        "cells": cells,
        "earlier": len(cells) - 1 if is_session else 0,
    }
    Path(folder.name, CELLS).write_text(json.dumps(found), encoding="utf-8")
    (start := Path(folder.name, notebook.path.name)).write_text(START, encoding="utf-8")
    return str(start)


def _hindrances(code: CellCode) -> Iterator[tuple[int, str, str]]:
    """Yield the line and text of what only a front end has, where it runs in any case, and what that is."""
    yield from ((line, text, "IPython, which gives it its value") for line, text in code.takes_value)
    try:
        statements = ast.parse(code.source).body
    except SyntaxError:  # which is told where it is run
        return
    always = (each for each in statements if not isinstance(each, (ast.Try, ast.If, ast.FunctionDef, ast.ClassDef)))
    for node in (inner for each in always for inner in ast.walk(each)):
        text = ast.unparse(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "google.colab" in text and not _is_colab():
            yield node.lineno, text, "google.colab, which there is only in Colab"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("input", "getpass", "getpass.getpass"):
            yield node.lineno, text, "somebody who types an answer"


def _is_colab() -> bool:
    try:
        return find_spec("google.colab") is not None
    except ModuleNotFoundError:
        return False
