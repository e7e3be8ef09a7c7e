"""Each instrument as a cell runs it: the command, and the answer made of what it writes."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.kernel.answer import Answer
from workshop.kernel.asking import Asking, check_writable
from workshop.kernel.command_process import CellProgress, CommandProcess, last_line, run_module, shown
from workshop.kernel.line_forms import PAGE, TEXT, VALUES
from workshop.notebooks.cell_places import with_cells
from workshop.notebooks.notebook_file import is_session, name_of
from workshop.recording.output_paths import output_path
from workshop.runs.script_error import shorten


class InterruptedCellError(KeyboardInterrupt):
    """The cell was interrupted; `answer` is what was seen until then, if anything was, and `nothing` says it if not."""

    def __init__(self, answer: Answer | None, nothing: str) -> None:
        super().__init__("interrupted, with what was seen until then" if answer else f"interrupted; {nothing}")
        self.answer = answer

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [str(self)]


class CrashedCellError(WorkshopError):
    """What was looked at has crashed; `answer` is what was seen until then."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


def measured(asking: Asking, progress: CellProgress) -> Answer:
    """Run `workshop measure`, or `workshop memory`.

    Raises:
        InterruptedCellError: the cell was interrupted.
        WorkshopError: there is no answer, and why.
    """
    page, values = asking.folder / PAGE, asking.folder / VALUES
    process = CommandProcess([asking.name, *asking.words(html=page, save=values), *asking.script], asking.folder)
    code = process.wait(progress)
    text = asking.plain(process.output()).strip("\n")
    answer = None
    if page.is_file() and (found := _text(values)):
        answer = Answer(text, asking.plain(_text(page)), with_cells(json.loads(found)))
        if kept := asking.given.get("save"):
            shutil.copyfile(values, kept)
        if html := asking.given.get("html"):
            answer.save(html)
    if process.interrupted:
        raise InterruptedCellError(answer, "no step was seen until then")
    if answer is None:
        if text:
            print(text)
            raise WorkshopError(f"workshop {asking.name} ended with exit code {code}")
        raise _failure(process, asking)
    return answer


def lines(asking: Asking, progress: CellProgress) -> Answer:
    """Run `workshop record lines`, and show what it has counted.

    The profile of a cell is kept only where `-o` says so; that of a script is kept in any case.

    Raises:
        CrashedCellError: the script has crashed after lines were counted.
        InterruptedCellError: the cell was interrupted.
        WorkshopError: nothing was counted.
    """
    place = asking.given.get("output") or ("" if is_session(asking.script[0]) else "./")
    if place:
        check_writable(output_path(place, "lines.lprof", {}))
    command = ["record", "lines", *asking.words(output=f"{asking.folder}/"), "--", *asking.script]
    process = CommandProcess(command, asking.folder, only_progress=True)
    code = process.wait(progress)
    profile = next(asking.folder.glob("*.lprof"), None)
    says = shorten(_before(process.said.text, str(profile)))
    if profile and place:
        profile = Path(shutil.move(profile, output_path(place, profile.name, {})))
    answer = lines_of(profile, asking) if profile else None
    if process.interrupted:
        raise InterruptedCellError(answer, "no line was counted until then")
    failure = _failure(process, asking)
    if code and (said := asking.plain(says).removesuffix(str(failure))):
        print(said)
    if answer is None:
        raise failure
    if code:
        name = name_of(asking.title.removeprefix("-m "))
        raise CrashedCellError(f"{name} ended with exit code {code}", answer)
    return answer


def lines_of(profile: Path, asking: Asking) -> Answer:
    """Return what `workshop lines` shows of a profile.

    Raises:
        WorkshopError: there is no such function; then all are shown.
    """
    try:
        answer = _seen(profile, asking, asking.view)
    except WorkshopError:
        if "function" in asking.view:
            shown(_seen(profile, asking, {}))
        raise
    if html := asking.view.get("html"):
        answer.save(html)
    return answer


def _seen(profile: Path, asking: Asking, view: Mapping[str, Any]) -> Answer:
    options = json.dumps({name: value for name, value in view.items() if name not in ("html", "as_json")})
    process = run_module(asking.folder, "workshop.kernel.line_forms", str(profile), str(asking.folder), options)
    if process.returncode:
        raise WorkshopError(asking.plain(last_line(process.stderr)))
    text, values, page = (asking.plain(_text(asking.folder / form)) for form in (TEXT, VALUES, PAGE))
    return Answer((values if view.get("as_json") else text).strip("\n"), page, json.loads(values))


def _before(text: str, path: str) -> str:
    """Return what a script has said before a line names the profile: from there on, it is the recorder that speaks."""
    said, found, _ = text.partition(path)
    return said.rpartition("\n")[0] if found else text


def _failure(process: CommandProcess, asking: Asking) -> WorkshopError:
    """The error that a command has ended with: the last line that it has said."""
    says = asking.plain(process.said.last.removeprefix("Error: "))
    return WorkshopError(says or f"it ended with exit code {process.process.returncode}, and said nothing")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
