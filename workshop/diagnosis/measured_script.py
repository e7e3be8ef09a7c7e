"""A script that is measured: it trains as it always does, and reports its steps."""

from collections.abc import Iterator

from workshop.probe.connection import ClosedError
from workshop.probe.messages import StepReport
from workshop.processes.script import Script


class MeasuredScript(Script):
    """A script that reports each of its steps, or some short ones at a time, until it ends."""

    def reports(self) -> Iterator[StepReport]:
        """Yield the script's reports until it ends.

        Raises:
            ScriptError: it ended with an exit code other than 0, hung, or ran away.
        """
        steps = 0
        try:
            while self.process is not None:
                report = self.receive()
                steps += report.steps
                yield report
        except ClosedError:
            if self.exit_code() != 0:
                raise self.ended(f"after {steps} steps") from None
