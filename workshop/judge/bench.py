"""The bench where two scripts are judged: they run in turn, and their work and their speed are compared.

Each part's check decides which of the bench's steps are taken, and in which order.
"""

from collections.abc import Sequence
from dataclasses import replace

from workshop.judge.contest import Contest
from workshop.judge.laps import Laps
from workshop.judge.race_verdict import verdict_on
from workshop.judge.reasons import Reason
from workshop.judge.referee import Referee
from workshop.judge.running_scripts import RunningScripts
from workshop.judge.time_plan import OutOfTimeError
from workshop.judge.verdict import NextStep, Outcome, Verdict
from workshop.probe.phases import Phase
from workshop.runs.script import Say

MAX_BEATEN = 1.2
"""Times, at most, that a script's speedup is the solution's; beyond, that is measured anew in the next check."""


class Bench(RunningScripts):
    """Two running scripts, with all that judges them."""

    def __init__(self, contest: Contest, say: Say, tell: Say | None = None) -> None:
        super().__init__(contest, say, tell)
        self.referee = Referee(self)

    def judge(self) -> Verdict:
        """Judge whether the candidate does the same work in less time, as every part asks."""
        try:
            self.start()
            return self.refusal() or self.race()
        except OutOfTimeError as error:
            assert self.plan
            return Verdict(self.subject, Outcome.UNDECIDED, (error.reason,), next=NextStep(words=self.plan.advice))

    def refusal(self) -> Verdict | None:
        """Return the verdict if the work differs or cannot be seen; None for the same work."""
        return self.referee.refusal()

    def race(self, *notes: Reason, phases: Sequence[Phase] | None = None) -> Verdict:
        """Race the candidate against the original, and check again that it did the same work meanwhile.

        The reasons in `notes` are added to the verdict. If only some phases are raced, the scripts' clocks time them.
        """
        laps = Laps(self, phases)
        result = laps.race()
        if refused := self.referee.refusal(laps.raced_s):
            return refused
        speed = laps.speed(result)
        if speed.solution_ratio and result.ratio > MAX_BEATEN * speed.solution_ratio:
            self.solution_ratio = None
        more_time = self.plan.advice if self.plan and result.out_of_time else None
        verdict = verdict_on(self.contest, result, speed, self.referee.ledgers, laps.where, self.load.end(), more_time)
        return replace(verdict, reasons=(*verdict.reasons, *notes))
