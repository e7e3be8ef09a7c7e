"""The bench where two scripts are judged: they run in turn, and their work and their speed are compared.

Each part's check decides which of the bench's steps are taken, and in which order.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from workshop.judge.contest import Contest
from workshop.judge.draw_proof import check_stock
from workshop.judge.laps import MAX_SPREAD, Laps
from workshop.judge.ledger import Ledger
from workshop.judge.race_verdict import not_finished, verdict_on
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.running_scripts import RunningScripts
from workshop.judge.sample_proof import SampleReason
from workshop.judge.step_proof import take_at_same_number
from workshop.judge.time_plan import OutOfTimeError
from workshop.judge.verdict import NextStep, Outcome, Verdict, other_work
from workshop.judge.work_proof import check_without_gradients, covered, differences
from workshop.probe.messages import Repetition
from workshop.probe.phases import Phase
from workshop.runs.script import Say


class RefereeReason(ReasonKind):
    """What is said of the epochs of both scripts, and of a complaint that the original draws as well."""

    FEWER_STEPS = "an epoch has {candidate} steps, the original's {original}"
    OF_ORIGINAL_TOO = "{0}; but so did {original} when run again", UNSEEN


class Bench(RunningScripts):
    """Two running scripts, with all that judges them.

    Attributes:
        also: a further check of the work, given both ledgers and the files of the recorded steps.
        ledgers: of the original and the candidate, as they were compared last.
    """

    def __init__(self, contest: Contest, say: Say, tell: Say | None = None) -> None:
        super().__init__(contest, say, tell)
        self.also: Callable[[Ledger, Ledger, Sequence[Path]], Iterable[Reason]] = lambda *_: ()
        self.ledgers = Ledger(), Ledger()
        self._repeated: dict[Path, Repetition] = {}  # recorded random transforms, of both scripts

    def judge(self) -> Verdict:
        """Judge whether the candidate does the same work in less time, as every part asks."""
        try:
            self.start()
            return self.refusal() or self.race()
        except OutOfTimeError as error:
            assert self.plan
            return Verdict(self.subject, Outcome.UNDECIDED, (error.reason,), next=NextStep(words=self.plan.advice))

    def race(self, *notes: Reason, phases: Sequence[Phase] | None = None) -> Verdict:
        """Race the candidate against the original, and check again that it did the same work meanwhile.

        The reasons in `notes` are added to the verdict. If only some phases are raced, the scripts' clocks time them.
        """
        laps, proven_s = Laps(self, phases), time.monotonic() - self.begin_s
        try:
            result = laps.race()
        except (KeyboardInterrupt, SystemExit):
            self.tell(str(not_finished(laps.pairs, proven_s)))
            raise
        if refused := self.refusal(laps.raced_s):
            return refused
        speed = laps.speed(result)
        if speed.solution_ratio and result.ratio > MAX_SPREAD * speed.solution_ratio:
            self.solution_ratio = None
        more_time = self.plan.advice if self.plan and result.out_of_time else None
        verdict = verdict_on(self.contest, result, speed, self.ledgers, laps.where, self.load.end(), more_time)
        seen = () if self.contest.is_part else (covered(self.ledgers[1], self.steps, self.candidate.whole_steps),)
        return replace(verdict, reasons=(*verdict.reasons, *notes, *seen))

    def refusal(self, raced_s: tuple[float, float] | None = None) -> Verdict | None:
        """Return the verdict if the work differs or cannot be seen; None for the same work.

        If there was a race, its beginning and its end are given.
        """
        self._compute_again()
        original, candidate = self.ledgers = self._ledgers()
        complaints = [*self.also(original, candidate, self.samples.files), *self._differences(original, candidate)]
        if not complaints and (fewest := min(self.steps_taken)) < self.steps:
            complaints = [RefereeReason.FEWER_STEPS(candidate=fewest, original=self.steps)]
        if not complaints:
            complaints = [*check_stock(original, candidate, raced_s)]
        if not self.contest.is_part and not all(complaint.is_unseen for complaint in complaints):
            complaints = self._of_candidate_alone(complaints, original, len(candidate.steps) // self.steps)
        return other_work(self.subject, complaints)

    def _differences(self, original: Ledger, candidate: Ledger) -> list[Reason]:
        found = differences(original, candidate, self.contest.wasted_time_s, self.contest.items)
        if self.contest.is_part:  # part 11 asks for fewer validations, or leaves the choice
            return found
        return [*found, *check_without_gradients(original, candidate)]

    def _compute_again(self) -> None:
        """Have the original recompute what it has not recomputed yet."""
        plan, ours, theirs = self.plan, self.samples_of_original, self.samples
        if not self._fails_itself:
            theirs.take(self.original)
            if plan and (ours.unsettled or theirs.unsettled):
                self.say(f"running {self.contest.original_name} again, to take steps at the same number")
                with self.contest.script(self.contest.original) as again:
                    step_s = self.original.step_s
                    take_at_same_number(again, [ours, theirs], lambda steps: steps * step_s <= plan.left_s)
        for script in (self.original, *self.ranks.scripts):
            self._repeated |= self.original.repeat(set(script.recorded_transforms()) - self._repeated.keys())

    @property
    def _fails_itself(self) -> bool:
        """Whether the original cannot take its own steps again; in a part, it is known that it can."""
        return self.plan is not None and any(each.error for each in self.samples_of_original.results)

    def _ledgers(self) -> tuple[Ledger, Ledger]:
        """Read what both scripts have done, with what the original has recomputed."""
        original, candidate = self.original_ledger(), self.ledger()
        original.recomputed = self.samples_of_original.results if self.plan else []
        candidate.recomputed = [] if self._fails_itself else self.samples.results
        candidate.replaced_clocks = sorted(self.replaced_clocks)
        for ledger, scripts in (original, [self.original]), (candidate, self.ranks.scripts):
            folders = [script.folder for script in scripts]
            ledger.repeated += [each for path, each in self._repeated.items() if path.parent in folders]
        return original, candidate

    def _of_candidate_alone(self, complaints: Sequence[Reason], original: Ledger, epochs: int) -> list[Reason]:
        """Run the original again, and mark each complaint that it draws as well: such a complaint proves nothing."""
        name = self.contest.original_name
        self.say(f"running {name} again, to see whether it does the same")
        with self.contest.script(self.contest.original) as again:
            again.epoch_steps = self.original.epoch_steps
            for _ in range(epochs):
                again.epoch()
            return not_alone(complaints, self._differences(original, Ledger.of(again.folder)), name)


def not_alone(complaints: Sequence[Reason], of_original: Sequence[Reason], name: str) -> list[Reason]:
    """Mark each complaint that the original draws as well when it is run again.

    Of samples, only the first difference that is found is told: any other one is as good. So it is where the inputs
    depend on how the training goes, as those of an agent do.
    """
    subjects = {reason.subject for reason in of_original}
    are_other_samples = any(map(_is_of_samples, of_original))
    return [
        RefereeReason.OF_ORIGINAL_TOO(each, original=name)
        if each.subject in subjects or (are_other_samples and _is_of_samples(each))
        else each
        for each in complaints
    ]


def _is_of_samples(reason: Reason) -> bool:
    return any(isinstance(part.kind, SampleReason) for part in reason.parts)
