"""The laps of a race: what each script trains in a pair, how long it takes, and when both are restarted."""

import math
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean, geometric_mean, median

from workshop.judge.judged_script import JudgedScript, TimedEpoch
from workshop.judge.race import MAX_PAIRS, MIN_PAIRS, Pair, RaceResult, race
from workshop.judge.race_verdict import RaceReason, how_far
from workshop.judge.reasons import Reason
from workshop.judge.running_scripts import RunningScripts
from workshop.judge.time_plan import EPOCHS_AFTER_RACE, FIRST_EPOCHS, TimePlan
from workshop.judge.verdict import Speed
from workshop.probe.messages import Proceed
from workshop.probe.phases import COMPUTING, FORWARD_AND_VALIDATION, Phase
from workshop.terminal import Count

SAMPLED = 0.1
"""Share of the raced epochs of which a step is recorded, beside one of the first; the script cannot tell which."""

LAP_S, MAX_AT_A_TIME = 1.0, 5
"""Seconds, at least, that each script of a pair trains, and epochs, at most. In `compare`, a lap is one epoch, or
several short ones; in a part where an epoch is only a number of steps, some of these. Ten short pairs tell more than
three long ones."""

LAPS, MAX_AT_ONCE = 5 * MAX_PAIRS, 20
"""Laps that the time of a gate allows, which are two races of both and the starts, and epochs of a lap, at most. The
two versions differ by little there, and long pairs scatter less than short ones."""

PAIRS_OF_WHOLE_EPOCHS = 3 * MIN_PAIRS
"""Pairs, at least, for which there must be time if a lap is to be a whole epoch of a DataLoader."""

MAX_SPREAD = 1.25
"""Times, at most, that the pairs differ in which the solution's speedup was measured, and that a script is faster than
the solution, for that speedup to be kept."""

MAX_SLOWDOWN, MIN_SHARE_OF_EPOCH = 1.5, 0.25
"""Times, at most, that the same computing takes longer or shorter with batches from memory, for the headroom to be
told; a difference counts from this share of an epoch of the candidate on."""


class Laps:
    """The laps of two scripts.

    Attributes:
        phases: the phases that are raced, timed by the scripts' clocks; None for whole epochs, timed by the judge's.
        where: what of a step these are; "" for all of it.
        solution: how fast the solution is here, by which the target is set.
        epochs: those that were raced, of each script; of parts of epochs, what a whole one would have taken.
        at_a_time: the number of epochs of each script in a lap.
        steps: the number of steps for which each of these is timed.
        lap_steps: the number that each script takes for it: as many, or more where its loading comes round only then.
        raced_s: the beginning and the end of the race.
        pairs: those that have been run.
    """

    def __init__(self, scripts: RunningScripts, phases: Sequence[Phase] | None) -> None:
        self.scripts, self.phases, self.plan = scripts, phases, scripts.plan
        self.where: Reason | str = RaceReason.BEFORE_THE_MODEL() if phases else ""
        self.solution = scripts.enter_context(SolutionSpeedup(scripts, phases))
        self.epochs: dict[JudgedScript, list[TimedEpoch]] = {scripts.original: [], scripts.candidate: []}
        self.at_a_time, self.steps = 1, scripts.steps
        self.lap_steps = dict.fromkeys(self.epochs, scripts.steps)
        self.raced_s = 0.0, 0.0
        self.pairs: tuple[Pair, ...] = ()
        self._ahead = dict[JudgedScript, int]()  # the batches that the workers of each load ahead
        self._first_sampled = 0  # of these epochs, the first that a step is recorded of

    def race(self) -> RaceResult:
        """Race the scripts, and again after both were restarted, where a small difference must show again.

        Raises:
            OutOfTimeError: there is no time for a race.
        """
        self._choose_length()
        contest, epochs_left = self.scripts.contest, MIN_PAIRS * self.at_a_time + EPOCHS_AFTER_RACE
        if self.plan:
            self.plan.require(epochs_left, "a race of three pairs")
            self.plan.expect(epochs_left + 1)
        self._first_sampled = random.randrange(MIN_PAIRS * self.at_a_time)
        self.solution.start()
        begin = time.monotonic()
        self.scripts.say_with_rest(f"racing against {contest.original_name} in turn; {self._asked()}")
        result = self._run(begin)
        if self.plan is None or not result.must_show_again(slowdown=contest.allowed is not None):
            return result
        self.plan.original_s, self.plan.candidate_s = (
            fmean(each.seconds for each in of) * self.lap_steps[script] / self.scripts.steps
            for script, of in self.epochs.items()
        )
        if not self.plan.fits(FIRST_EPOCHS + epochs_left):
            return replace(result, unsure=True)
        self.plan.expect(FIRST_EPOCHS + epochs_left)
        self.scripts.say_with_rest("starting both again, to see whether it holds")
        for script in self.epochs:
            script.stop()
        self._train_untimed(FIRST_EPOCHS)
        return replace(result, again=self._run(begin).pairs)

    def _asked(self) -> str:
        contest, ratio = self.scripts.contest, self.solution.ratio
        if contest.allowed is not None:
            return f"allowed: {contest.allowed:.2%} slower"
        at_most = "at most " * (contest.solution is not None and ratio is None)
        return f"asked for: {at_most}{contest.target_here(ratio):g}x"

    def _run(self, begin: float) -> RaceResult:
        earlier, began = self.pairs, time.monotonic()

        def tell(result: RaceResult) -> None:
            self.pairs = earlier + result.pairs
            self.scripts.say(Count(how_far(result, time.monotonic() - began, self._left_s())))

        result = race(
            self._original_lap,
            lambda: self._lap(self.scripts.candidate),
            lambda: self.scripts.contest.target_here(self.solution.ratio),
            self._left_s(),
            tell,
        )
        self.raced_s = begin, time.monotonic()
        return result

    def _left_s(self) -> float:
        if self.plan:
            return self.plan.left_s - EPOCHS_AFTER_RACE * (self.plan.original_s + self.plan.candidate_s)
        return self.scripts.deadline_s - time.monotonic()

    def _original_lap(self) -> float:
        """Return the seconds that the original takes for a lap; the solution may train after it."""
        seconds = self._lap(self.scripts.original)
        self.solution.pair(seconds, self.steps)
        return seconds

    def _lap(self, script: JudgedScript) -> float:
        """Return the seconds that a script takes for a lap; a step of the candidate may be recorded meanwhile."""
        scripts, raced, ran = self.scripts, self.epochs[script], []
        for left in reversed(range(self.at_a_time)):
            is_first = len(raced) == self._first_sampled
            is_sampled = script is scripts.candidate and (is_first or random.random() < SAMPLED)
            steps = self.lap_steps[script]
            step = scripts.some_step(steps)
            ran.append(scripts.epoch(script, step if is_sampled else None, steps, pause=not left))
            scripts.samples.add(ran[-1:])
            raced.append(ran[-1].at_length(scripts.steps))
        scripts.replaced_clocks.update(*(epoch.report.replaced_clocks for epoch in ran))
        return sum(epoch.at_length(self.steps).seconds_in(self.phases) for epoch in ran)

    def _choose_length(self) -> None:
        """Choose how many epochs each script trains in a pair, and of how many steps.

        The times of single short epochs vary too much. In a part it is an epoch, unless that is but a number of steps.
        """
        scripts, contest = self.scripts, self.scripts.contest
        if contest.is_part and not scripts.has_no_epochs:
            return
        if contest.is_part:
            seconds = self._seconds_of_epoch()
            self.steps = min(scripts.steps, math.ceil(scripts.steps * LAP_S / seconds))
        scripts.align()
        self._ahead = {scripts.original: scripts.original_ledger().ahead, scripts.candidate: scripts.ledger().ahead}
        self.lap_steps = {script: self._in_rounds(script.whole_steps, ahead) for script, ahead in self._ahead.items()}
        step_s = {script: self._step_s(script) for script in self.epochs}
        if self.plan:
            self._choose_whole_epochs(self.plan, step_s)
        for script, steps in self.lap_steps.items():
            if self._is_in_rounds(script):  # long enough for what a worker does while it is stopped, as to sleep
                self.lap_steps[script] *= math.ceil(LAP_S / (step_s[script] * steps))
        if self.plan:
            self.plan.original_s, self.plan.candidate_s = (step_s[each] * self.lap_steps[each] for each in self.epochs)
            lap_s, most = LAP_S, MAX_AT_A_TIME
            if contest.allowed is not None:
                lap_s, most = max(LAP_S, self.plan.left_s / LAPS), MAX_AT_ONCE
            self.at_a_time = min(most, math.ceil(lap_s / max(self.plan.original_s, self.plan.candidate_s)))
        self._train_untimed(min(self.at_a_time, MAX_AT_A_TIME))

    def _in_rounds(self, whole: int | None, ahead: int) -> int:
        """Return the steps of a lap, rounded up so that all that is loaded for it is loaded within it.

        They are epochs of the DataLoader, which have so many steps as a `whole`; where these are longer, or unknown,
        rounds of its workers, who load so many batches `ahead`. Of other laps, some would wait for what all workers
        load, and others for nothing.
        """
        unit = whole if whole and whole <= self.steps else max(ahead, 1)
        return math.ceil(self.steps / unit) * unit

    def _is_in_rounds(self, script: JudgedScript) -> bool:
        return self._ahead[script] > 0 and self.lap_steps[script] % (script.whole_steps or math.inf) != 0

    def _step_s(self, script: JudgedScript) -> float:
        """Return the seconds of a step; what was loaded before is used up first."""
        steps = self.lap_steps[script]
        if self._is_in_rounds(script):
            self.scripts.epoch(script, steps=steps)
        return max(self.scripts.epoch(script, steps=steps).seconds, 1e-3) / steps

    def _choose_whole_epochs(self, plan: TimePlan, step_s: dict[JudgedScript, float]) -> None:
        """Have scripts whose epochs were cut train whole epochs of their DataLoaders in a lap, if there is time for it.

        Both do, or else the candidate alone.

        Args:
            plan: the time that there is.
            step_s: what a step of each takes.
        """
        original, candidate = self.epochs
        for chosen in ([original, candidate], [candidate]):
            whole = {script: script.whole_steps or 0 for script in chosen}
            steps = {script: max(number, whole.get(script, 0)) for script, number in self.lap_steps.items()}
            if PAIRS_OF_WHOLE_EPOCHS * sum(step_s[script] * steps[script] for script in steps) <= plan.left_s:
                self.lap_steps = steps
                return

    def _seconds_of_epoch(self) -> float:
        """Let the original train for an epoch, and return what it takes of what is raced."""
        return max(self.scripts.epoch(self.scripts.original).seconds_in(self.phases), 1e-3)

    def _train_untimed(self, epochs: int) -> None:
        """Let both train that many epochs of a lap, the first of which may be the rest of one.

        The script that trained last has filled the caches. What was loaded before is then in no lap.
        """
        for script, steps in self.lap_steps.items():
            for _ in range(epochs):
                self.scripts.epoch(script, steps=steps - script.steps_in_run % steps)

    def speed(self, result: RaceResult) -> Speed:
        """Return what a race has shown; the original trains once more, which shows the headroom."""
        contest, (before, after) = self.scripts.contest, self.epochs.values()
        ledger = self.scripts.original_ledger()
        low, high = result.interval
        pairs = [(pair.before_s, pair.after_s) for pair in result.pairs + result.again]
        items = self.at_a_time * ledger.items_in(slice(self.steps))
        phases_before, phases_after = under_one_name(self._phases(before), self._phases(after))
        rate_before, rate_after = (items / geometric_mean(seconds) for seconds in zip(*pairs, strict=True))
        return Speed(
            original=contest.original_name.removeprefix("the "),
            candidate=contest.candidate.name,
            rate_before=rate_before,
            rate_after=rate_after,
            ratio=result.ratio,
            low=low,
            high=high,
            pairs=len(pairs),
            target=result.target,
            phases_before=phases_before,
            phases_after=phases_after,
            headroom_rate=headroom_rate(self.scripts, before, after, rate_after),
            solution_ratio=self.solution.ratio,
            items=ledger.items_in(slice(self.scripts.steps)),
            steps=self.scripts.steps if self.scripts.has_no_epochs else 0,
        )

    def _phases(self, epochs: Sequence[TimedEpoch]) -> dict[str, float]:
        return {phase: median(epoch.report.phases[phase] for epoch in epochs) for phase in self.phases or Phase}


def headroom_rate(
    scripts: RunningScripts, before: Sequence[TimedEpoch], after: Sequence[TimedEpoch], rate_after: float
) -> float | None:
    """Return the samples per second of the original with batches from memory.

    None if the candidate's rate, `rate_after`, is no lower, if no earlier run has left a batch, or if the same
    computing took much longer or shorter than in the race, whose epochs of both scripts are given.
    """
    epoch = scripts.original.epoch(Proceed(steps=scripts.steps, from_memory=True))
    raced_s, seconds = median(each.seconds_in(COMPUTING) for each in before), epoch.seconds_in(COMPUTING)
    matters = abs(raced_s - seconds) > MIN_SHARE_OF_EPOCH * median(each.seconds for each in after)
    if not epoch.report.from_memory or (matters and not raced_s / MAX_SLOWDOWN < seconds < raced_s * MAX_SLOWDOWN):
        return None
    rate = scripts.original_ledger().items_in(slice(-scripts.steps, None)) / epoch.seconds
    return rate if rate > rate_after else None


def under_one_name(before: dict[str, float], after: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of each phase of two scripts, of which one may call by another name what the other does.

    A validation is known by its being without gradients. Where only one of the scripts has it so, the other's counts as
    forward: both scripts then get one phase for the two.
    """
    forward, validation = str(Phase.FORWARD), str(Phase.VALIDATION)
    if bool(before.get(validation)) == bool(after.get(validation)):
        return before, after

    def joined(seconds: dict[str, float]) -> dict[str, float]:
        whole = seconds[forward] + seconds[validation]
        kept = {name: whole if name == forward else each for name, each in seconds.items() if name != validation}
        return {FORWARD_AND_VALIDATION if name == forward else name: each for name, each in kept.items()}

    return joined(before), joined(after)


class SolutionSpeedup(ExitStack):
    """The solution in the first pairs of a race, where it trains after the original: a target is needed only then.

    What an earlier check has kept is taken if the machine is as quiet as it was then.

    Attributes:
        ratio: its speedup; None if there is no solution, or as long as it is not known.
    """

    def __init__(self, scripts: RunningScripts, phases: Sequence[Phase] | None) -> None:
        super().__init__()
        self.scripts, self.phases = scripts, phases
        self.ratio = scripts.solution_ratio if scripts.contest.solution else None
        self._ratios: list[float] = []
        self._running: JudgedScript | None = None

    def start(self) -> None:
        """Start the solution and let it warm up, if its speedup has to be measured."""
        scripts, solution = self.scripts, self.scripts.contest.solution
        if solution is None or scripts.knows_solution:
            return
        begin, self.ratio = time.monotonic(), None
        scripts.say("starting the solution, to see what it brings on this machine")
        self._running = self.enter_context(scripts.contest.script(solution))
        for _ in range(FIRST_EPOCHS):
            self._running.epoch()
        scripts.deadline_s += time.monotonic() - begin

    def pair(self, original_s: float, steps: int) -> None:
        """Let the solution train for so many steps, which the original took so long for; the last pair ends it."""
        if not self._running:
            return
        begin = time.monotonic()
        epoch = self._running.epoch(Proceed(steps=steps)).at_length(steps)
        self._ratios.append(original_s / epoch.seconds_in(self.phases))
        if len(self._ratios) == MIN_PAIRS:
            self.close()
            self._running, self.ratio = None, round(median(self._ratios), 3)
            if max(self._ratios) < MAX_SPREAD * min(self._ratios) and not self.scripts.load.so_far().busy:
                self.scripts.solution_ratio = self.ratio
        self.scripts.deadline_s += time.monotonic() - begin
