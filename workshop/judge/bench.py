"""The bench where two scripts are judged: they run in turn, and their work and their speed are compared.

Each part's check decides which of the bench's steps are taken, and in which order.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

from workshop.errors import WorkshopError
from workshop.judge.contest import Contest
from workshop.judge.judged_ranks import JudgedRanks
from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.ledger import Ledger
from workshop.judge.order_proof import repeats_order
from workshop.judge.picture_proof import check_stock
from workshop.judge.proof import check_without_gradients, differences
from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, Pair, RaceResult, race
from workshop.judge.race_verdict import ROOM, how_far, race_verdict, what_is_left
from workshop.judge.sampled_steps import SampledSteps, take_at_same_number
from workshop.judge.slowdown_verdict import slowdown_verdict
from workshop.judge.step_proof import not_reproducible
from workshop.judge.time_plan import OutOfTimeError, TimePlan
from workshop.judge.verdict import Outcome, Speed, UnseenWork, Verdict, other_work
from workshop.probe.messages import Proceed, Repetition
from workshop.probe.phases import COMPUTING, Phase
from workshop.processes.other_load import LoadMeter
from workshop.processes.script import Say

FIRST_EPOCHS = 2
"""A script that was just started warms up for this many epochs, which are watched but not raced."""

BUDGET_S = 90.0
"""The time for a part, from the start of the scripts to the end of the race; what follows takes a few seconds more."""

BEATEN = 1.2
"""If a script beats the solution's speedup by more than this factor, the solution was measured badly."""

SURE = 1.5
"""In `compare`, a speedup below this many times the target must show again after both scripts are restarted; where a
slowdown is what would be told, one that is as close to the target."""

EPOCHS_AFTER_RACE = 1
"""The number of epochs after the race: one of the original shows the headroom."""

SAMPLED = 0.1
"""The share of the raced epochs of which a step is recorded, beside one of the first; the script cannot tell which."""

BUSIER, MATTERS = 1.5, 0.25
"""Two epochs are not comparable if the same computing takes this many times longer or shorter, and if the difference is
more than this share of an epoch of the candidate."""

LAP_S, MAX_AT_A_TIME = 1.0, 5
"""Each script of a pair trains for about this many seconds, where it can. In `compare`, that is one epoch, or several
short ones, but at most this many. In a part where an epoch is only a number of steps, it is some of these steps. Ten
short pairs tell more than three long ones."""


LAPS, MAX_AT_ONCE = 5 * MAX_PAIRS, 20
"""Where a slowdown is what would be told, the two versions differ by little, and long pairs scatter less than short
ones. A lap is as long as there is time for so many, which are two races of both and the starts; it has at most so many
epochs."""


class Bench(ExitStack):
    """Two scripts, run in turn; the candidate may train on several ranks.

    Attributes:
        phases: the phases that are raced, timed by the scripts' clocks; None for whole epochs, timed by the judge's.
        also: a further check, given both ledgers and the files of the recorded steps.
        solution_ratio: the solution's speedup on this machine, if it has been measured and was steady.
        tell: told once how long it will take.
        plan: the time of a contest that is no part's.
        load: tells what other programs used of the cores meanwhile.
    """

    def __init__(self, contest: Contest, say: Say, tell: Say | None = None) -> None:
        super().__init__()
        self.load = self.enter_context(LoadMeter())
        self.contest, self.say, self.subject = contest, say, contest.subject
        self.tell = tell or say
        self.plan = None if contest.is_part else TimePlan(contest.budget_s)
        self.original = self.enter_context(contest.script(contest.original))
        self.ranks = self.enter_context(JudgedRanks(contest))
        for script in (self.original, *self.ranks.scripts):
            script.say = say
        self.phases: Sequence[Phase] | None = None
        self.also: Callable[[Ledger, Ledger, Sequence[Path]], Iterable[str]] = lambda *_: ()
        self.solution_ratio: float | None = None
        self.samples = SampledSteps()  # of the candidate
        self.samples_of_original = SampledSteps()
        self.repeated: dict[Path, Repetition] = {}  # recorded random transforms, of both scripts
        self.replaced_clocks: set[str] = set()
        self.steps_taken: list[int] = []  # in each epoch of the candidate
        self.ledgers = Ledger(), Ledger()  # of the original and the candidate, as they were compared last
        self.deadline_s = math.inf
        self.raced_s: tuple[float, float] | None = None  # the beginning and the end of the race

    @property
    def candidate(self) -> JudgedScript:
        """The script that is judged: its first rank, if there are several."""
        return self.ranks.scripts[0]

    @property
    def steps(self) -> int:
        """The number of optimizer steps in an epoch."""
        return self.original.epoch_steps or 0

    def start(self) -> None:
        """Start the scripts, in a part both at once, and let them warm up."""
        name = self.contest.original_name
        self.deadline_s = time.monotonic() + BUDGET_S
        self.say(f"starting {self.contest.candidate.name} and {name}")
        self.original.begin()
        if self.steps and self.contest.is_part:
            step = self.some_step()
            for script in self.ranks.scripts:
                script.begin(step)
            self.train(1)  # before the original is waited for: a script that crashes at once is found out at once
        first = self.epoch(self.original)
        if not first.report.finished:
            raise WorkshopError(f"{name} has no step that could be compared: {self.original.seen()}")
        if warning := self.load.so_far().warning:
            self.tell(warning)
        if self.plan:
            self.plan.original_s = first.seconds
            self.tell(self.plan.estimate(name, self.steps, first.report.whole_steps))
        for script in self.ranks.scripts:
            script.epoch_steps = self.original.epoch_steps
        self._say_with_rest(f"watching what {self.contest.candidate.name} does, for {FIRST_EPOCHS} epochs")
        self.train(FIRST_EPOCHS - len(self.steps_taken))
        if self.contest.is_part and repeats_order(self.ledger(), self.steps):
            self.epoch(self.original)  # with a second epoch, it shows before the race whether it repeats its order, too
        if not self.contest.is_part:
            self.original.draw_items()

    def epoch(self, script: JudgedScript, sample_step: int | None = None, steps: int | None = None) -> TimedEpoch:
        """Let one of the scripts train; the original keeps some batches, to measure its headroom later."""
        return script.epoch(Proceed(sample_step, steps, keep_batches=script is self.original))

    def train(self, epochs: int) -> None:
        """Let the candidate train before the race, and record one step of each epoch.

        The original does so too, unless its steps are known to be reproducible.
        """
        for _ in range(epochs):
            step = self.some_step()
            if not self.steps_taken and self.steps > 1:
                step = max(step, 1)  # the original can be brought to any step but its first
            if self.plan:
                epoch = self.epoch(self.original, step)
                self.plan.original_s = epoch.seconds
                self.samples_of_original.add([epoch], step)
                self.samples_of_original.take(self.original)
            trained = self.ranks.epoch(step)
            if self.plan:
                self.plan.candidate_s = min(self.plan.candidate_s or math.inf, trained[0].seconds)
            self.replaced_clocks.update(*(epoch.report.replaced_clocks for epoch in trained))
            self.steps_taken.append(trained[0].report.steps)
            self.samples.add(trained, step)

    def align(self) -> None:
        """Let the script that is behind train until both have trained for the same number of epochs.

        Whatever they do only now and then, such as a validation, then falls into the same pairs.
        """
        behind, ahead = sorted((self.original, self.candidate), key=lambda script: script.epochs_in_run)
        for _ in range(ahead.epochs_in_run - behind.epochs_in_run):
            self.epoch(behind)

    def restart(self) -> None:
        """Start the candidate again, with a different seed, in the folder with the files it has left."""
        self.say("starting your script again, on the cache that it left")
        self.candidate.stop()
        again = self.contest.run(self.contest.candidate, self.candidate.folder, seed=1)
        again.epoch_steps = self.candidate.epoch_steps
        self.ranks.scripts[0] = self.enter_context(again)
        self.candidate.begin(self.some_step())

    def some_step(self, steps: int | None = None) -> int:
        """Choose a step of an epoch, or of so many steps: the script cannot know which one will be recomputed."""
        return random.randrange(steps or self.steps)

    def original_ledger(self) -> Ledger:
        """Return what the original has done so far."""
        return Ledger.of(self.original.folder)

    def ledger(self) -> Ledger:
        """Return what the candidate has done so far."""
        return Ledger.of_ranks([Ledger.of(script.folder) for script in self.ranks.scripts])

    def refusal(self) -> Verdict | None:
        """Return the verdict if the work differs or cannot be seen; None for the same work."""
        original, candidate = self.original_ledger(), self.ledger()
        self._compute_again(original, candidate)
        self.ledgers = original, candidate
        complaints = [*self.also(original, candidate, self.samples.files), *self._differences(original, candidate)]
        if not complaints and (fewest := min(self.steps_taken, default=self.steps)) < self.steps:
            complaints = [f"an epoch has {fewest} steps, the original's {self.steps}"]
        if not complaints and self.raced_s:
            complaints = [*check_stock(original, candidate, self.raced_s)]
        if not self.contest.is_part and not all(isinstance(each, UnseenWork) for each in complaints):
            complaints = self._of_candidate_alone(complaints, original, len(candidate.steps) // self.steps)
        return other_work(self.subject, complaints)

    def _differences(self, original: Ledger, candidate: Ledger) -> list[str]:
        found = differences(original, candidate, self.contest.wasted_time_s, self.contest.items)
        if self.contest.is_part:  # part 11 asks for fewer validations, or leaves the choice
            return found
        return [*found, *check_without_gradients(original, candidate)]

    def _compute_again(self, original: Ledger, candidate: Ledger) -> None:
        """Have the original recompute what it has not recomputed yet, and enter all of it into the ledgers."""
        ours, theirs = self.samples_of_original, self.samples
        if self.plan:
            original.recomputed = ours.results
        if not any(each.error for each in original.recomputed):
            theirs.take(self.original)
            if self.plan and (ours.unsettled or theirs.unsettled):
                self.say(f"running {self.contest.original_name} again, to take steps at the same number")
                with self.contest.script(self.contest.original) as again:
                    take_at_same_number(again, [ours, theirs], self._fits)
                original.recomputed = ours.results
            candidate.recomputed = theirs.results
        candidate.replaced_clocks = sorted(self.replaced_clocks)
        for ledger, scripts in (original, [self.original]), (candidate, self.ranks.scripts):
            for script in scripts:
                self.repeated |= self.original.repeat(set(script.recorded_transforms()) - self.repeated.keys())
                ledger.repeated += [each for path, each in self.repeated.items() if path.parent == script.folder]

    def _fits(self, steps: int) -> bool:
        """Return whether there is time for so many steps of the original."""
        return self.plan is None or steps * self.plan.original_s / self.steps <= self.plan.left_s

    def _of_candidate_alone(self, complaints: Sequence[str], original: Ledger, epochs: int) -> list[str]:
        """Run the original again, and mark each complaint that it draws as well: such a complaint proves nothing."""
        name = self.contest.original_name
        self.say(f"running {name} again, to see whether it does the same")
        with self.contest.script(self.contest.original) as again:
            again.epoch_steps = self.original.epoch_steps
            for _ in range(epochs):
                again.epoch()
            found = self._differences(original, Ledger.of(again.folder))
        kinds = set(map(_without_figures, found))
        return [
            UnseenWork(f"{each}; but so did {name} when run again") if _without_figures(each) in kinds else each
            for each in complaints
        ]

    def files_left(self) -> str:
        """Return a sentence that names the files the candidate leaves behind; empty if there are none."""
        original, candidate = self.ledgers
        if not (files := sorted(set(candidate.files) - set(original.files))):
            return ""
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        return f"it leaves files behind: {files[0]}{more}; keep files under the config's cache_dir"

    def judge(self) -> Verdict:
        """Judge whether the candidate does the same work in less time, as every part asks."""
        try:
            self.start()
            return self.refusal() or self.race()
        except OutOfTimeError as error:
            assert self.plan
            return Verdict(self.subject, Outcome.UNDECIDED, (str(error),), next=self.plan.advice)

    def _say_with_rest(self, text: str) -> None:
        self.say(f"{text}; {self.plan.left}" if self.plan else text)

    def race(self, *notes: str) -> Verdict:
        """Race the candidate against the original, and check again that it did the same work meanwhile.

        The sentences in `notes` are added to the verdict.
        """
        contest, target = self.contest, self.contest.target
        where = " until the model is called" if self.phases else ""
        solution_ratio = self._speedup_of_solution()
        epochs: dict[JudgedScript, list[TimedEpoch]] = {self.original: [], self.candidate: []}

        def seconds(script: JudgedScript) -> float:
            ran = []
            for _ in range(at_a_time):
                begun = len(epochs[self.candidate])
                is_sampled = script is self.candidate and (begun == first or random.random() < SAMPLED)
                step = self.some_step(steps)
                ran.append(self.epoch(script, step if is_sampled else None, steps))
                self.samples.add(ran[-1:], step)
                epochs[script].append(ran[-1].at_length(self.steps))
            self.replaced_clocks.update(*(epoch.report.replaced_clocks for epoch in ran))
            return sum(self._seconds(epoch.at_length(steps)) for epoch in ran)

        def on_pair(pairs: Sequence[Pair]) -> None:
            self.say(how_far(pairs))

        def run() -> RaceResult:
            left_s = self.deadline_s - time.monotonic()
            if self.plan:
                left_s = self.plan.left_s - EPOCHS_AFTER_RACE * (self.plan.original_s + self.plan.candidate_s)
            result = race(lambda: seconds(self.original), lambda: seconds(self.candidate), target, left_s, on_pair)
            self.raced_s = begin, time.monotonic()
            return result

        steps = self._steps_at_a_time() if contest.is_part else self.steps
        at_a_time = 1 if contest.is_part else self._epochs_at_a_time()
        epochs_left = MIN_PAIRS * at_a_time + EPOCHS_AFTER_RACE
        if self.plan:
            self.plan.require(epochs_left, "a race of three pairs")
            self.plan.expect(epochs_left + 1)
        first = random.randrange(MIN_PAIRS * at_a_time)  # of these epochs, the first that a step is recorded of
        begin = time.monotonic()
        asked = f"target: speedup {target:g}x" if contest.allowed is None else f"allowed: {contest.allowed:.2%} slower"
        self._say_with_rest(f"racing, epoch by epoch; {asked}{where}")
        result = run()
        unsure = self._must_show_again(result)
        if unsure and self.plan and self.plan.fits(FIRST_EPOCHS + epochs_left):
            self.plan.expect(FIRST_EPOCHS + epochs_left)
            self._run_both_again()
            result, unsure = replace(result, again=run().pairs), False
        if refused := self.refusal():
            return refused
        if solution_ratio and result.ratio > BEATEN * solution_ratio:  # the solution was measured on a busy machine
            solution_ratio = self._speedup_of_solution(again=True)
        items = at_a_time * self.original_ledger().items_in(slice(steps))
        speed = self._speed(result, items, epochs[self.original], epochs[self.candidate], solution_ratio)
        return self._verdict_on(result, speed, where, notes, unsure)

    def _must_show_again(self, result: RaceResult) -> bool:
        """Return whether a small difference has decided the race of a contest that is no part's.

        It may be due to how a process's memory happens to be laid out, so both scripts are restarted.
        """
        if self.plan is None:
            return False
        if self.contest.allowed is None:
            return result.faster is True and result.ratio < SURE * result.target
        return result.faster is False and result.ratio * SURE > result.target

    def _verdict_on(
        self, result: RaceResult, speed: Speed, where: str, notes: tuple[str, ...], unsure: bool
    ) -> Verdict:
        """Return the verdict on a race; `unsure` if a small speedup could not be confirmed for want of time."""
        then = "" if self.phases else what_is_left(speed, self.ledgers[1].restarts_workers)
        over = f"Speedup {speed.text(speed.ratio)}x over {self.contest.original_name}{where}"
        says = f"{over}, same work"
        if left_out := not_reproducible(self.ledgers[0].recomputed):
            unseen = (
                f"the judge cannot see whether it is the same work: {self.contest.original_name} takes its own steps "
                f"again with another {' and '.join(left_out)}; it keeps something outside of its models and "
                "optimizers, or draws with other generators than those of torch, NumPy and random"
            )
            return Verdict(self.subject, Outcome.UNDECIDED, (unseen, over, *notes), speed)
        if unsure:
            small = f"a speedup below {SURE * speed.target:g}x" if self.contest.allowed is None else "a small slowdown"
            why = f"{small} must show again after a restart, and no time was left"
            advice = self._advice(out_of_time=True)
            return Verdict(self.subject, Outcome.UNDECIDED, (why, says, *notes), speed, advice)
        out_of_time = result.faster is None and len(result.pairs) < MAX_PAIRS
        if self.contest.allowed is not None:
            base, advice = self.contest.original_name, self._advice(out_of_time)
            return slowdown_verdict(self.subject, base, result, speed, self.contest.allowed, notes, advice)
        return race_verdict(self.subject, result, speed, says, notes, then, self._advice(out_of_time))

    def _advice(self, out_of_time: bool) -> str:
        """Return what to do if nothing was decided: allow more time, or close what else was running."""
        load = self.load.end()
        more_time = self.plan.advice if self.plan and out_of_time else ""
        return " ".join(filter(None, [more_time, load.advice if load.busy or not more_time else ""]))

    def _seconds(self, epoch: TimedEpoch) -> float:
        """Return the seconds of an epoch that count in the race."""
        return sum(epoch.phases[phase] for phase in self.phases) if self.phases else epoch.seconds

    def _steps_at_a_time(self) -> int:
        """Return how many steps each script takes in a pair: an epoch's, unless that is but a number of steps."""
        if self.contest.items:
            return self.steps
        seconds = self._seconds(self.epoch(self.original))
        self.align()
        return min(self.steps, math.ceil(self.steps * LAP_S / max(seconds, 1e-3)))

    def _epochs_at_a_time(self) -> int:
        """Return how many epochs each script trains in a pair: the times of single short epochs vary too much.

        The script that trained last has filled the caches, so both first train that many epochs untimed.
        """
        self.align()
        lap_s, most = LAP_S, MAX_AT_A_TIME
        if self.plan and self.contest.allowed is not None:
            lap_s, most = max(LAP_S, self.plan.left_s / LAPS), MAX_AT_ONCE
        seconds = self._seconds(self.epoch(self.original))
        count = min(most, math.ceil(lap_s / max(seconds, 1e-3)))
        self._train_untimed(min(count, MAX_AT_A_TIME))
        self.align()
        return count

    def _run_both_again(self) -> None:
        """Restart both scripts."""
        self._say_with_rest("starting both again, to see whether it holds")
        self.original.stop()
        self.candidate.stop()
        self._train_untimed(FIRST_EPOCHS)

    def _train_untimed(self, epochs: int) -> None:
        for script in (self.original, self.candidate):
            for _ in range(epochs):
                self.epoch(script)

    def _speedup_of_solution(self, again: bool = False) -> float | None:
        """Return the solution's speedup on this machine; measure it if it is unknown or too low, or if `again`."""
        contest, known = self.contest, self.solution_ratio
        if contest.solution is None:
            return None
        if known is not None and known >= contest.target * ROOM and not again:
            return known  # a lower speedup may have been bad luck
        begin = time.monotonic()
        self.say(f"measuring the solution on this machine{'' if again else ', once'}")
        ratios = []
        with contest.script(contest.solution) as solution:
            for _ in range(FIRST_EPOCHS):
                solution.epoch()
            for pair in range(1, 4):
                self.say(f"measuring the solution on this machine: pair {pair} of 3")
                ratios.append(self._seconds(self.epoch(self.original)) / self._seconds(solution.epoch()))
        if max(ratios) < ROOM * min(ratios):  # otherwise it is measured again next time
            self.solution_ratio = round(median(ratios), 3)
        self.deadline_s += time.monotonic() - begin
        return median(ratios)

    def _speed(
        self,
        result: RaceResult,
        items: int,
        before: list[TimedEpoch],
        after: list[TimedEpoch],
        solution_ratio: float | None,
    ) -> Speed:
        """Return what a race has shown, in whose pairs each script trained on so many items."""

        def phases(epochs: list[TimedEpoch]) -> dict[str, float]:
            return {phase: median(epoch.phases[phase] for epoch in epochs) for phase in self.phases or Phase}

        low, high = result.interval
        pairs = [(pair.before_s, pair.after_s) for pair in result.pairs + result.again]
        rate_before, rate_after = (items / geometric_mean(seconds) for seconds in zip(*pairs, strict=True))
        headroom_rate = self._headroom_rate(before, after)
        return Speed(
            original=self.contest.original_name.removeprefix("the "),
            candidate=self.contest.candidate.name,
            rate_before=rate_before,
            rate_after=rate_after,
            ratio=result.ratio,
            low=low,
            high=high,
            pairs=len(pairs),
            target=result.target,
            phases_before=phases(before),
            phases_after=phases(after),
            headroom_rate=headroom_rate if headroom_rate and headroom_rate > rate_after else None,
            solution_ratio=solution_ratio,
            items=self.original_ledger().items_in(slice(self.steps)),
        )

    def _headroom_rate(self, before: Sequence[TimedEpoch], after: Sequence[TimedEpoch]) -> float | None:
        """Samples per second of the original with batches from memory.

        None if no earlier run has left a batch, or if the same computing took much longer or shorter than in the race.
        """
        epoch = self.original.epoch(Proceed(from_memory=True))
        usual_s, now_s = median(map(_computing_s, before)), _computing_s(epoch)
        matters = abs(usual_s - now_s) > MATTERS * median(each.seconds for each in after)
        if not epoch.report.from_memory or (matters and not usual_s / BUSIER < now_s < usual_s * BUSIER):
            return None
        return self.original_ledger().items_in(slice(-self.steps, None)) / epoch.seconds


def _computing_s(epoch: TimedEpoch) -> float:
    """The seconds of an epoch in which the script computed, by its own clock."""
    return sum(epoch.phases[phase] for phase in COMPUTING)


def _without_figures(sentence: str) -> str:
    return re.sub(r"\d[\d.,]*%?", "", sentence)
