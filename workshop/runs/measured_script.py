"""A script that reports its steps, and how it is started as its user starts it."""

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.file_kind import require_script
from workshop.notebooks.cell_script import runnable
from workshop.notebooks.notebook_file import is_session, name_of
from workshop.probe.connection import ClosedError
from workshop.probe.messages import StepReport
from workshop.runs.script import Script
from workshop.runs.script_error import require_syntax, script_in

TORCHRUN = "torch.distributed.run"
"""The module that the command torchrun runs."""


class MeasuredScript(Script):
    """A script that reports each step, or several short ones at a time, until it ends.

    Attributes:
        trainers: the processes of each rank, in all runs. Processes without a rank are numbered as they appear; the
            number of an ended one goes to the next.
        doing: what is done with it now, as it was told last.
    """

    def __init__(self, *command: Any, **options: Any) -> None:
        super().__init__(*command, **options)
        self.doing = ""
        self.trainers: dict[int, list[int]] = {}
        self._of_earlier_runs: set[int] = set()

    def tell(self, doing: str) -> None:
        """Say what is done with the script from now on."""
        self.doing = doing
        self.say(doing)

    def silence(self) -> str:
        """Return what is going on while no step ends."""
        return f"{self.doing}; its step has not ended yet" if self.doing else super().silence()

    def reports(self) -> Iterator[StepReport]:
        """Yield the script's reports until it ends; each has a rank.

        Raises:
            ScriptError: it ended with an exit code other than 0, hung, or ran away.
        """
        self._of_earlier_runs = {pid for pids in self.trainers.values() for pid in pids}
        steps = 0
        try:
            while self.process is not None:
                report = self.receive()
                steps += report.steps
                yield replace(report, rank=self._rank(report))
        except ClosedError:
            if self.exit_code() != 0:
                raise self.ended(f"after {steps} steps") from None

    def _rank(self, report: StepReport) -> int:
        gone = self.connections.gone | self._of_earlier_runs
        present = {pids[-1]: rank for rank, pids in self.trainers.items() if pids[-1] not in gone}
        if report.pid in present:
            return present[report.pid]
        taken = set(present.values())
        free = next(number for number in itertools.count() if number not in taken)
        rank = free if report.rank is None or report.rank in taken else report.rank
        self.trainers.setdefault(rank, []).append(report.pid)
        return rank


def staged_script(script: str, arguments: list[str], is_module: bool, folder: Path) -> MeasuredScript:
    """Return a run of the script in the present folder, not started yet, or of torchrun with its ranks.

    Raises:
        WorkshopError: there is no such script, or it is a file of another kind.
        ScriptError: it cannot be parsed.
    """
    if script == "torchrun" and not Path(script).is_file():
        script, is_module = TORCHRUN, True
    if script.startswith("-"):
        raise WorkshopError(f"there is no option {script}; arguments of the script come after it")
    if not is_module:
        require_script(Path(script))
    command = ["-m", script] if is_module else [str(Path(script).absolute())]
    command += arguments
    require_syntax(script_in([sys.executable, *command]))
    quiet = {"KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}  # torch.profiler need not say what it does
    title = name_of(script) if is_session(script) else ""
    return MeasuredScript(runnable(command), folder, Path.cwd(), quiet, patience_s=600.0, title=title)
