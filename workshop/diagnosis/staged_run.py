"""A run of a script that is measured in stages: as it is, with batches from memory, and so on."""

import math
import time
from collections import Counter, defaultdict

from workshop.diagnosis.measured_script import MeasuredScript
from workshop.diagnosis.measured_steps import MeasuredSteps, together
from workshop.probe.batch_store import MOST_KEPT
from workshop.probe.messages import Circumstances, SetStage, StepReport
from workshop.processes.process_tree import cpu_seconds
from workshop.processes.script import ScriptError

FEWEST_STEPS = 5
"""The number of steps that are measured at least, however long they take."""

SETTLED = 0.05
"""Workers that use less than this share of a core have filled their queues, and are in nobody's way."""

LONGEST_SETTLING_S = 15.0
LONGEST_KEEPING_S = 60.0


class StagedRun:
    """A script that goes through stages, and tells of each step, or of some short ones at a time; the clock is here.

    Attributes:
        seen: the number of steps so far, in all runs.
        batches: the number of batches so far, by the fields of `BatchCounts`.
        last: the last report of the present run.
        others: the reports of other ranks than the first, by rank.
        ended: whether the script has ended.
        error: why, if it crashed.
        interrupted: whether it has ended for this process because Ctrl-C was pressed.
    """

    def __init__(self, script: MeasuredScript) -> None:
        self.script = script
        self.seen = 0
        self.batches: Counter[str] = Counter()
        self.interrupted = False
        self.others: dict[int, list[StepReport]] = defaultdict(list)
        self.start()

    def start(self) -> None:
        """Run the script from its beginning."""
        self.script.start()
        self.reports = self.script.reports()
        self.last: StepReport | None = None
        self.heard_s = time.perf_counter()
        self.ended = False
        self.error: ScriptError | None = None

    @property
    def circumstances(self) -> Circumstances:
        """What decided how fast the last step was computed."""
        return self.last.circumstances if self.last else Circumstances()

    def report(self) -> StepReport | None:
        """Return the report of the next step, or of some short ones; None when the script has ended."""
        try:
            while (report := next(self.reports, None)) and report.rank:
                self.others[report.rank].append(report)
        except ScriptError as error:  # what is known of its steps is not lost
            report, self.error = None, error
        except KeyboardInterrupt:
            report, self.interrupted = None, True
        self.ended = report is None
        if report:
            self.last, self.heard_s = report, time.perf_counter()
            self.seen += report.steps
            self.batches.update(vars(report.batches))
        return report

    def take(self, steps: int, seconds: float = math.inf) -> bool:
        """Let at least this number of steps go by; return whether they came within some seconds."""
        enough, give_up = self.seen + steps, time.monotonic() + seconds
        while self.seen < enough and time.monotonic() < give_up and self.report():
            pass
        return self.seen >= enough

    def measure(self, stage: str, seconds: float, fewest: int = FEWEST_STEPS) -> MeasuredSteps | None:
        """Measure steps of one stage, for some seconds at least; None if the script ends before there is one."""
        self.script.send(SetStage(stage))
        taken: list[StepReport] = []
        begin, count = self.heard_s, 0
        while count < fewest or self.heard_s - begin < seconds:
            before = self.heard_s
            if (report := self.report()) is None:
                break
            if report.stage == stage:
                begin = begin if taken else before
                taken.append(report)
                count += report.steps
        return together(taken, self.heard_s - begin) if taken else None

    def of_others(self, stage: str) -> dict[int, MeasuredSteps]:
        """Return the steps that the other ranks took in a stage, by rank."""
        taken = {rank: [each for each in reports if each.stage == stage] for rank, reports in self.others.items()}
        return {rank: together(each, sum(report.seconds for report in each)) for rank, each in taken.items() if each}

    def keep(self, steps: int, seconds: float) -> None:
        """Have batches kept: as many as there may be in some steps and seconds, but at least one."""
        self.script.send(SetStage("keep"))
        begin, enough = time.monotonic(), self.seen + steps
        while self.report():
            kept = self.batches["kept"]
            if kept >= MOST_KEPT or (kept and (self.seen >= enough or time.monotonic() - begin > seconds)):
                break
            if time.monotonic() - begin > LONGEST_KEEPING_S:
                break

    def go_to(self, stage: str) -> None:
        """Begin a stage, and wait for the end of its first step."""
        self.script.send(SetStage(stage))
        while (self.last is None or self.last.stage != stage) and self.report():
            pass

    def settle(self) -> None:
        """Wait until the workers have loaded all that they may load ahead."""
        give_up = time.monotonic() + LONGEST_SETTLING_S
        while not self.ended and self.script.process and time.monotonic() < give_up:
            begin, before_s = time.monotonic(), cpu_seconds(self.script.process.pid)
            while not self.ended and time.monotonic() < begin + 0.5:
                self.report()
            if cpu_seconds(self.script.process.pid) - before_s < SETTLED * (time.monotonic() - begin):
                return
