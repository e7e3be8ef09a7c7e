"""Each instrument as a cell runs it: the command, and the answer made of what it writes."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from typer.main import get_command

from workshop.cli import lines_command
from workshop.errors import WorkshopError
from workshop.kernel.answer import Answer
from workshop.kernel.command_process import CellProgress, CommandProcess, last_line, shown, started_command
from workshop.notebooks.cell_places import with_cells
from workshop.notebooks.notebook_file import name_of
from workshop.runs.script_error import shorten


class InterruptedCellError(KeyboardInterrupt):
    """The cell was interrupted; `answer` is what was seen until then, if anything was."""

    def __init__(self, answer: Answer | None) -> None:
        super().__init__("interrupted" + ", with what was seen until then" * bool(answer))
        self.answer = answer

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [str(self)]


@dataclass(frozen=True)
class Asking:
    """What a cell asks of an instrument."""

    name: str
    options: list[str]
    """What stands before the script, as typed."""
    script: list[str]
    """The script with its arguments; empty where it is not known which of the options it is."""
    folder: Path
    """The folder of this cell."""

    def value(self, *names: str) -> str | None:
        """Return the value of an option, by any of its names; None if it is not there."""
        for word, following in pairwise([*self.options, ""]):
            name, has_value, value = word.partition("=")
            if name in names:
                return value if has_value else following
        return None

    def plain(self, text: str) -> str:
        """Return a text in which cells have their names, without the files in a folder that nobody knows."""
        folder = r"\n?".join(map(re.escape, f"{self.folder}/"))  # a long path is broken at the end of a line
        text = re.sub(rf"{folder}\n?(In \[\d+\]\.ipynb/\n?)?", "", text)
        return re.sub(r"(In \[\d+\])(\.ipynb|\.lprof|\.py)+", r"\1", text)

    def failure(self, process: CommandProcess) -> WorkshopError:
        """Return the error that a command has ended with: the last line that it has said."""
        says = self.plain(process.said.last.removeprefix("Error: "))
        return WorkshopError(says or f"it ended with exit code {process.process.returncode}, and said nothing")


def measured(asking: Asking, progress: CellProgress) -> Answer:
    """Run `workshop measure`, or `workshop memory`.

    Raises:
        InterruptedCellError: the cell was interrupted.
        WorkshopError: there is no answer, and why.
    """
    files = {"--html": asking.folder / "page.html", "--save": asking.folder / "values.json"}
    given = {option: asking.value(option) for option in files}
    own = [word for option, path in files.items() if given[option] is None for word in (option, str(path))]
    process = CommandProcess([asking.name, *own, *asking.options, *asking.script], asking.folder)
    code = process.wait(progress)
    text = asking.plain(process.output()).strip("\n")
    page, values = (_text(Path(given[option] or path)) for option, path in files.items())
    answer = Answer(text, asking.plain(page), with_cells(json.loads(values))) if page and values else None
    if process.interrupted:
        raise InterruptedCellError(answer)
    if answer is None:
        if text:
            print(text)
            raise WorkshopError(f"workshop {asking.name} ended with exit code {code}")
        raise asking.failure(process)
    return answer


def lines(asking: Asking, progress: CellProgress) -> Answer:
    """Run `workshop record lines`, and show what it has counted.

    Raises:
        InterruptedCellError: the cell was interrupted.
        WorkshopError: nothing was counted, or the script has crashed.
    """
    view, options = _of_command(asking.options)
    is_cell = bool(asking.script) and Path(asking.script[0]).parent == asking.folder
    place = asking.value("-o", "--output") or (f"{asking.folder}/" if is_cell else ".")
    began_s = time.time()
    command = ["record", "lines", *["-o", place] * is_cell, *options, "--", *asking.script]
    process = CommandProcess(command, asking.folder, only_progress=True)
    code = process.wait(progress)
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    found = [path for path in folder.glob("*.lprof") if path.stat().st_mtime >= began_s - 1.0]
    newest = max(found, key=lambda path: path.stat().st_mtime, default=None)
    answer = lines_of(newest, view, asking) if newest else None
    if process.interrupted:
        raise InterruptedCellError(answer)
    if code and (says := shorten(process.said.text)):
        print(asking.plain(says))
    if answer is None:
        raise asking.failure(process)
    if code:
        shown(answer)
        raise WorkshopError(f"{name_of(asking.script[0])} ended with exit code {code}")
    return answer


def lines_of(profile: Path, view: Sequence[str], asking: Asking) -> Answer:
    """Return what `workshop lines` shows of a profile, with some of its options.

    Raises:
        WorkshopError: there is no such option, or no such function.
    """
    page = asking.folder / "page.html"
    of_page = [word for before, word in pairwise(["", *view]) if not word.startswith("--by") and before != "--by"]
    forms = {"text": view, "json": [*view, "--json"], "html": [*of_page, "--html", str(page)]}
    file = str(profile)
    started = {form: started_command(asking.folder, "lines", file, *options) for form, options in forms.items()}
    said = {form: process.communicate() for form, process in started.items()}
    if failed := next((form for form, process in started.items() if process.returncode), None):
        raise WorkshopError(last_line(said[failed][1]).removeprefix("Error: "))
    text, values = asking.plain("".join(said["text"])), asking.plain(said["json"][0])
    return Answer(text.strip("\n"), asking.plain(_text(page)), json.loads(values))


def _of_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that are options of `workshop lines`, and the others."""
    options: list[Any] = list(get_command(lines_command.app).params)
    known = {name: each for each in options for name in each.opts if name.startswith("-")}
    taken: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        option = known.get(word.partition("=")[0])
        (taken if option else others).append(word)
        if option and not option.is_flag and "=" not in word and left:
            taken.append(left.pop(0))
    return taken, others


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
