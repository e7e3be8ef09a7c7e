"""The referee: compares the work of both scripts, and refuses a candidate that does other work."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from workshop.judge.ledger import Ledger
from workshop.judge.picture_proof import check_stock
from workshop.judge.reasons import UNSEEN, Reason, ReasonKind
from workshop.judge.running_scripts import RunningScripts
from workshop.judge.sampled_steps import take_at_same_number
from workshop.judge.verdict import Verdict, other_work
from workshop.judge.work_proof import check_without_gradients, differences
from workshop.probe.messages import Repetition


class RefereeReason(ReasonKind):
    """What is said of the epochs of both scripts, and of a complaint that the original draws as well."""

    FEWER_STEPS = "an epoch has {candidate} steps, the original's {original}"
    OF_ORIGINAL_TOO = "{0}; but so did {original} when run again", UNSEEN


class Referee:
    """Compares what two running scripts have done so far.

    Attributes:
        also: a further check, given both ledgers and the files of the recorded steps.
        ledgers: of the original and the candidate, as they were compared last.
    """

    def __init__(self, scripts: RunningScripts) -> None:
        self.scripts, self.contest = scripts, scripts.contest
        self.also: Callable[[Ledger, Ledger, Sequence[Path]], Iterable[Reason]] = lambda *_: ()
        self.ledgers = Ledger(), Ledger()
        self._repeated: dict[Path, Repetition] = {}  # recorded random transforms, of both scripts

    def refusal(self, raced_s: tuple[float, float] | None = None) -> Verdict | None:
        """Return the verdict if the work differs or cannot be seen; None for the same work.

        If there was a race, its beginning and its end are given.
        """
        scripts = self.scripts
        original, candidate = self.ledgers = scripts.original_ledger(), scripts.ledger()
        self._compute_again(original, candidate)
        complaints = [*self.also(original, candidate, scripts.samples.files), *self._differences(original, candidate)]
        if not complaints and (fewest := min(scripts.steps_taken)) < scripts.steps:
            complaints = [RefereeReason.FEWER_STEPS(candidate=fewest, original=scripts.steps)]
        if not complaints and raced_s:
            complaints = [*check_stock(original, candidate, raced_s)]
        if not self.contest.is_part and not all(complaint.is_unseen for complaint in complaints):
            complaints = self._of_candidate_alone(complaints, original, len(candidate.steps) // scripts.steps)
        return other_work(self.contest.subject, complaints)

    def _differences(self, original: Ledger, candidate: Ledger) -> list[Reason]:
        found = differences(original, candidate, self.contest.wasted_time_s, self.contest.items)
        if self.contest.is_part:  # part 11 asks for fewer validations, or leaves the choice
            return found
        return [*found, *check_without_gradients(original, candidate)]

    def _compute_again(self, original: Ledger, candidate: Ledger) -> None:
        """Have the original recompute what it has not recomputed yet, and enter all of it into the ledgers."""
        scripts, plan = self.scripts, self.scripts.plan
        ours, theirs = scripts.samples_of_original, scripts.samples
        if plan:
            original.recomputed = ours.results
        if not any(each.error for each in original.recomputed):
            theirs.take(scripts.original)
            if plan and (ours.unsettled or theirs.unsettled):
                scripts.say(f"running {self.contest.original_name} again, to take steps at the same number")
                with self.contest.script(self.contest.original) as again:
                    step_s = plan.original_s / scripts.steps
                    take_at_same_number(again, [ours, theirs], lambda steps: steps * step_s <= plan.left_s)
                original.recomputed = ours.results
            candidate.recomputed = theirs.results
        candidate.replaced_clocks = sorted(scripts.replaced_clocks)
        for ledger, of_ledger in (original, [scripts.original]), (candidate, scripts.ranks.scripts):
            for script in of_ledger:
                self._repeated |= scripts.original.repeat(set(script.recorded_transforms()) - self._repeated.keys())
                ledger.repeated += [each for path, each in self._repeated.items() if path.parent == script.folder]

    def _of_candidate_alone(self, complaints: Sequence[Reason], original: Ledger, epochs: int) -> list[Reason]:
        """Run the original again, and mark each complaint that it draws as well: such a complaint proves nothing."""
        name = self.contest.original_name
        self.scripts.say(f"running {name} again, to see whether it does the same")
        with self.contest.script(self.contest.original) as again:
            again.epoch_steps = self.scripts.original.epoch_steps
            for _ in range(epochs):
                again.epoch()
            found = self._differences(original, Ledger.of(again.folder))
        of_original = {reason.subject for reason in found}
        return [
            RefereeReason.OF_ORIGINAL_TOO(each, original=name) if each.subject in of_original else each
            for each in complaints
        ]
