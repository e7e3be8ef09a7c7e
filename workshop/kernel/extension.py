"""The magics themselves: `%measure`, `%lines` and `%memory` on a script, and with `%%` on the cell that they begin."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workshop.errors import WorkshopError
from workshop.kernel.answer import Answer
from workshop.kernel.asking import Asking, asked
from workshop.kernel.cells_so_far import HERE, CellsSoFar, RanCell, write_session
from workshop.kernel.command_process import CellProgress, shown
from workshop.kernel.instruments import CrashedCellError, InterruptedCellError, lines, measured
from workshop.kernel.lines_here import lines_here
from workshop.notebooks.cell_script import noted
from workshop.notebooks.magics import INSTRUMENTS
from workshop.notebooks.notebook_file import SESSION_FOLDER
from workshop.probe.cell_runner import FAILED
from workshop.runs.process_tree import end, marked
from workshop.terminal import some_of

_magics: dict[int, "Magics"] = {}
"""Those of each shell, by its identity."""


def load(shell: Any) -> None:
    """Give a shell of IPython the magics."""
    unload(shell)
    _magics[id(shell)] = magics = Magics(shell)
    magics.so_far.follow()
    for name in INSTRUMENTS:
        shell.register_magic_function(magics.magic(name), "line_cell", name)


def unload(shell: Any) -> None:
    """Take the magics from a shell."""
    if magics := _magics.pop(id(shell), None):
        magics.so_far.leave()
        for kind in ("line", "cell"):
            for name in INSTRUMENTS:
                shell.magics_manager.magics[kind].pop(name, None)


class Magics:
    """The magics of a shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.so_far = CellsSoFar(shell)

    def magic(self, name: str) -> Callable[..., Answer | None]:
        """Return the magic of an instrument."""

        def magic(line: str, cell: str | None = None) -> Answer | None:
            with TemporaryDirectory(prefix=SESSION_FOLDER, ignore_cleanup_errors=True) as folder:
                try:
                    if cell is None:
                        return self._of_script(name, _words(line), Path(folder))
                    return self._of_cell(name, _words(line), cell, Path(folder))
                finally:  # whenever an interrupt comes
                    end(lambda: marked(folder), grace_s=0)

        magic.__doc__ = f"""Run `workshop {name}` on a script, or with %% on the cells so far and this one.

        %{name} [options] train.py --your arguments
        %%{name} [options]

        The options: %{name} --help
        """
        return magic

    def _of_script(self, name: str, words: list[str], folder: Path) -> Answer | None:
        if not (asking := asked(name, words, folder)):
            return None
        if asking.here:
            raise WorkshopError(f"{HERE} is for cells; a script has a process of its own in any case")
        if not asking.script:
            raise WorkshopError(f"name a script behind %{name}; in its own cell, %%{name} takes what stands below it")
        says = noted(Path(asking.title), asking.given.get("cells"))
        return self._answer(asking, f"%{name} {asking.title}", says)

    def _of_cell(self, name: str, words: list[str], body: str, folder: Path) -> Answer | None:
        if not (asking := asked(name, words, folder, of_cell=True)):
            return None
        cell = RanCell(self.so_far.number, f"%%{name}\n{body}")
        if asking.here:
            if name != "lines":
                raise WorkshopError(
                    f"%%{name} {HERE} cannot be: it replaces batches, and ends the training, which a kernel would not "
                    f"get over; leave {HERE} out, or take %%lines {HERE}"
                )
            if others := asking.words():
                raise WorkshopError(
                    f"{others[0]} is not for {HERE}, where the cell runs as it is; leave one of them out"
                )
            return lines_here(self._shell, self.so_far.ran(), cell, body, asking)
        before = self.so_far.before(cell)
        session = write_session(folder, [*before, cell])
        asking = replace(asking, script=[str(session)])
        after = [f"after {some_of(f'In [{each.number}]' for each in before)}"] * bool(before)
        says = [*after, *noted(session, asking.given.get("cells"))]
        return self._answer(asking, f"%%{name}, In [{cell.number}]", says, session.with_suffix(FAILED))

    def _answer(self, asking: Asking, title: str, says: list[str], failed: Path | None = None) -> Answer | None:
        """Return the answer; a cell that was interrupted, or has crashed, shows it, and fails."""
        progress, ended = CellProgress(self._shell, title), "no answer"
        try:
            answer = (lines if asking.name == "lines" else measured)(asking, progress)
            ended = ""
        except (InterruptedCellError, CrashedCellError) as stopped:
            ended = str(stopped)
            if stopped.answer:
                shown(stopped.answer)
            raise
        finally:
            failures = failed.read_text(encoding="utf-8").splitlines() if failed and failed.is_file() else []
            progress.end("; ".join(filter(None, [ended, *says, *failures])) or "done")
        return answer


def _words(line: str) -> list[str]:
    """Return the words of a line, as a shell would have them."""
    try:
        return shlex.split(line)
    except ValueError as error:  # a quote without its end
        raise WorkshopError(f"{line} cannot be read: {str(error).lower()}") from None
