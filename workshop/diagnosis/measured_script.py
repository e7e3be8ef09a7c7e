"""A script that is measured: it trains as it always does, and each of its processes that trains reports its steps."""

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
        pids: the process of each rank. Processes without a rank are numbered as they come.
    """

    def __init__(self, *command: Any, **options: Any) -> None:
        super().__init__(*command, **options)
        self.pids: dict[int, int] = {}

    def reports(self) -> Iterator[StepReport]:
        """Yield the script's reports until it ends; each has a rank.

        Raises:
            ScriptError: it ended with an exit code other than 0, hung, or ran away.
        """
        self.pids.clear()
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
        known = next((rank for rank, pid in self.pids.items() if pid == report.pid), None)
        if known is not None:
            return known
        is_free = report.rank is not None and report.rank not in self.pids
        rank = report.rank if is_free else next(number for number in range(1000) if number not in self.pids)
        assert rank is not None
        self.pids[rank] = report.pid
        return rank
