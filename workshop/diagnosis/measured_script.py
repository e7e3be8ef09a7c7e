"""A script that is measured: it trains as it always does, and each of its processes that trains reports its steps."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from workshop.probe.connection import ClosedError
from workshop.probe.messages import StepReport
from workshop.processes.script import Script

TORCHRUN = "torch.distributed.run"
"""The module that the command torchrun runs."""


class MeasuredScript(Script):
    """A script that reports each of its steps, or some short ones at a time, until it ends.

    Attributes:
        trainers: the processes of each rank. Those without a rank are numbered as they come; one that has ended leaves
            its number to the next.
    """

    def __init__(self, *command: Any, **options: Any) -> None:
        super().__init__(*command, **options)
        self.trainers: dict[int, list[int]] = {}

    def reports(self) -> Iterator[StepReport]:
        """Yield the script's reports until it ends; each has a rank.

        Raises:
            ScriptError: it ended with an exit code other than 0, hung, or ran away.
        """
        self.trainers.clear()
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
        present = {pids[-1]: rank for rank, pids in self.trainers.items() if pids[-1] not in self.connections.gone}
        if report.pid in present:
            return present[report.pid]
        taken = set(present.values())
        free = next(number for number in itertools.count() if number not in taken)
        rank = free if report.rank is None or report.rank in taken else report.rank
        self.trainers.setdefault(rank, []).append(report.pid)
        return rank
