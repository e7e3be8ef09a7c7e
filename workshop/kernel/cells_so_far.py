"""What a kernel has run so far, and the notebook that it makes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.notebooks.magics import INSTRUMENTS, as_python

HERE = "--here"
"""The option by which a cell runs in the kernel, and not only in a process of its own."""


@dataclass(frozen=True)
class RanCell:
    """A cell that a kernel has run."""

    number: int
    """That beside it: 12 in "In [12]"."""
    source: str

    @property
    def code(self) -> str:
        """What Python runs of it."""
        return as_python(self.source).source.strip()

    @property
    def ran_elsewhere(self) -> bool:
        """Whether an instrument has run it in a process of its own, so that the kernel knows nothing of it."""
        first = self.source.lstrip().partition("\n")[0].split()
        return first[:1] in [[f"%%{name}"] for name in INSTRUMENTS] and HERE not in first


class CellsSoFar:
    """Follows which cells a kernel runs.

    Args:
        shell: that of IPython in the kernel.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: set[int] = set()
        self._ids: dict[int, str] = {}
        """What the front end calls each cell that was run, also after it was edited; empty where it tells nothing."""
        self._id_now: str | None = None
        self._events = {"pre_run_cell": self._begins, "post_run_cell": self._ended}

    def follow(self) -> None:
        """Begin to follow."""
        for name, call in self._events.items():
            self._shell.events.register(name, call)

    def leave(self) -> None:
        """Follow no more."""
        for name, call in self._events.items():
            self._shell.events.unregister(name, call)

    def _begins(self, info: Any) -> None:
        self._id_now = getattr(info, "cell_id", None)

    def _ended(self, result: Any) -> None:
        number = result.execution_count
        if number and not result.success:
            self._failed.add(number)
        if number and self._id_now:
            self._ids[number] = self._id_now

    @property
    def number(self) -> int:
        """The number of the cell that runs now, whose source is kept before it runs."""
        return len(self._shell.history_manager.input_hist_raw) - 1

    def ran(self) -> list[RanCell]:
        """Return the cells that came to their end in the kernel, in the order in which they ran."""
        history = self._shell.history_manager
        failed = self._failed | getattr(history, "exceptions", {}).keys()  # since IPython 9, also from before
        sources = enumerate(history.input_hist_raw[: self.number])
        cells = (RanCell(number, source) for number, source in sources if number not in failed and source.strip())
        return [each for each in cells if not each.ran_elsewhere]

    def before(self, cell: RanCell) -> list[RanCell]:
        """Return what has to run before a cell: the cells that ran, but for two kinds.

        Earlier runs of the cell itself, without its magic or before an edit, are left out. So are repeats: one that has
        run again counts once, unless something new came in between, as the second run then may have done something
        else.
        """
        taken: list[RanCell] = []
        sources_then: dict[str, int] = {}  # how many different ones there were when it ran last
        for each in self.ran():
            if each.code == cell.code or (self._id_now and self._ids.get(each.number) == self._id_now):
                continue
            if sources_then.get(each.source) != len(sources_then):
                taken.append(each)
            sources_then.setdefault(each.source, 0)
            sources_then[each.source] = len(sources_then)
        return taken


def write_session(folder: Path, cells: Sequence[RanCell]) -> Path:
    """Write cells, of which the last one is to be looked at, as a notebook that is a session, and return its path."""
    made = [
        {
            "cell_type": "code",
            "execution_count": each.number,
            "metadata": {},
            "outputs": [],
            "source": each.source.splitlines(keepends=True),
        }
        for each in cells
    ]
    path = folder / f"In [{cells[-1].number}].ipynb"
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    return path
