"""What is told of the laps of a race."""

import itertools
import math
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from workshop.judge.contest import of_two_scripts
from workshop.judge.judged_script import TimedEpoch
from workshop.judge.laps import Laps, under_one_name
from workshop.judge.ledger import Ledger
from workshop.judge.race import RaceResult
from workshop.judge.step_proof import SampledSteps
from workshop.judge.time_plan import TimePlan
from workshop.probe.messages import EpochReport
from workshop.probe.phases import FORWARD_AND_VALIDATION, Phase


def test_a_validation_that_one_script_does_under_another_name_is_no_gain() -> None:
    as_it_came = {Phase.FORWARD: 1.17, Phase.BACKWARD: 0.5, Phase.VALIDATION: 0.0}
    without_gradients = {Phase.FORWARD: 0.5, Phase.BACKWARD: 0.5, Phase.VALIDATION: 0.25}
    before, after = under_one_name(as_it_came, without_gradients)
    assert before == {FORWARD_AND_VALIDATION: 1.17, Phase.BACKWARD: 0.5}
    assert after == {FORWARD_AND_VALIDATION: 0.75, Phase.BACKWARD: 0.5}
    both = (without_gradients, without_gradients)
    assert under_one_name(*both) == both


STEP_S, BATCH_S = 0.001, 0.16


class MadeScript:
    """A script on a clock of its own, whose workers each take `BATCH_S` for a batch, and load two ahead.

    Attributes:
        batches: the length of its DataLoader.
        start_s: how long it takes to start the workers, in each epoch; 0 if they persist.
    """

    def __init__(
        self, workers: int, batches: int = 10**9, start_s: float = 0.0, whole_steps: int | None = None
    ) -> None:
        self.workers, self.batches, self.start_s, self.whole_steps = workers, batches, start_s, whole_steps
        self.now_s, self.steps_in_run, self.ends_s = 0.0, 0, list[float]()

    def stop(self) -> None:
        self.steps_in_run, self.now_s = 0, 0.0

    def epoch(self, steps: int) -> TimedEpoch:
        begin_s, first = self.now_s, self.steps_in_run
        for _ in range(steps):
            self._take(self.steps_in_run % self.batches)
            self.steps_in_run += 1
        seconds = self.now_s - begin_s
        self.now_s += BATCH_S / 16  # the sleep for an item goes on while a worker is stopped
        phases = dict.fromkeys(Phase, 0.0) | {Phase.DATA_WAIT: seconds}
        return TimedEpoch(seconds, EpochReport(True, steps, phases, None, [], 0), first)

    def _take(self, batch: int) -> None:
        if batch == 0:
            self.now_s, self.ends_s = self.now_s + self.start_s, []
            self._load(2 * self.workers)
        if self.workers:
            self.now_s = max(self.now_s, self.ends_s[batch])
            self._load(1)
        self.now_s += STEP_S + BATCH_S * (not self.workers)

    def _load(self, count: int) -> None:
        for number in range(len(self.ends_s), min(len(self.ends_s) + count, self.batches)):
            earlier = self.ends_s[number - self.workers] if number >= self.workers else 0.0
            self.ends_s.append(max(earlier, self.now_s) + BATCH_S)

    @property
    def true_s(self) -> float:
        """The seconds of a step if it trains for long."""
        again, steps = MadeScript(self.workers, self.batches, self.start_s), 64 * min(self.batches, 100)
        return again.epoch(steps).seconds / steps


class MadeScripts(ExitStack):
    """Two of them, of which the judge's epochs are so many steps; what workers load before the race is not timed."""

    solution_ratio, load, knows_solution, has_no_epochs, deadline_s = None, None, True, False, math.inf

    def __init__(self, original: MadeScript, candidate: MadeScript, steps: int, budget_s: float) -> None:
        super().__init__()
        self.original, self.candidate, self.steps = original, candidate, steps
        self.plan, self.replaced_clocks, self.samples = TimePlan(budget_s), set[str](), SampledSteps()
        for each in (original, candidate):
            each.epoch(steps)
            each.now_s += 100.0
        two = [Path("base.py"), Path("workers.py")]
        self.contest = of_two_scripts(*two, [], 1.1, budget_s)

    def epoch(
        self, script: MadeScript, sample_step: int | None = None, steps: int | None = None, pause: bool = True
    ) -> TimedEpoch:
        return script.epoch(steps or self.steps)

    def align(self) -> None:
        pass

    def say(self, _: object) -> None:
        pass

    say_with_rest = say

    def some_step(self, steps: int) -> int:
        return steps - 1

    def original_ledger(self) -> Ledger:
        return Ledger(ahead=2 * self.original.workers)

    def ledger(self) -> Ledger:
        return Ledger(ahead=2 * self.candidate.workers)


def raced(original: MadeScript, candidate: MadeScript, steps: int, budget_s: float = 3600.0) -> tuple[Laps, RaceResult]:
    laps = Laps(MadeScripts(original, candidate, steps, budget_s), None)  # type: ignore[arg-type]
    return laps, laps.race()


LENGTHS = [4, 8, 16, 32, 64, 200, 10**9]


@pytest.mark.parametrize("cut", [3, 9, 50])
@pytest.mark.parametrize("workers", [(0, 0), (0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 32), (1, 32), (16, 32)])
def test_what_workers_load_ahead_is_loaded_in_a_lap(workers: tuple[int, int], cut: int) -> None:
    """No lap shows more than what the workers can load, and the pairs agree.

    Also where an epoch of the DataLoader is too long for the time that is left, or its length is not known.
    """
    for batches, start_s, budget_s, is_known in itertools.product(LENGTHS, (0.0, 0.3), (3600.0, 120.0), (True, False)):
        whole, steps = (batches, min(cut, batches)) if is_known and batches < 10**9 else (None, cut)
        original, candidate = (MadeScript(each, batches, start_s, whole) for each in workers)
        laps, result = raced(original, candidate, steps, budget_s)
        for script, epochs in laps.epochs.items():
            least_s = steps * BATCH_S / max(script.workers, 1)
            assert all(each.seconds >= least_s / 1.05 for each in epochs)
        ratios, (low, high) = [pair.ratio for pair in laps.pairs], result.interval
        assert high <= 2 * low
        assert start_s or max(ratios) <= 2 * min(ratios)
        if whole and budget_s == 3600.0:
            true = original.true_s / candidate.true_s
            assert ratios == pytest.approx([true] * len(ratios), rel=0.01), (batches, start_s)


def test_a_race_after_a_restart_has_the_same_laps() -> None:
    """By which a small speedup must show again."""
    original, candidate = MadeScript(4, 64, whole_steps=64), MadeScript(5, 64, whole_steps=64)
    laps, result = raced(original, candidate, 9)
    assert result.again
    assert [pair.ratio for pair in laps.pairs] == pytest.approx([original.true_s / candidate.true_s] * 6)


def test_in_a_part_some_steps_are_whole_rounds_of_the_workers() -> None:
    """Where a second of the original is too short for one of them."""
    scripts = MadeScripts(MadeScript(0), MadeScript(16), 200, 3600.0)
    scripts.contest, scripts.has_no_epochs = replace(scripts.contest, is_part=True), True
    scripts.plan = None  # type: ignore[assignment]
    laps = Laps(scripts, None)  # type: ignore[arg-type]
    laps.race()
    assert (laps.steps, [*laps.lap_steps.values()]) == (7, [7, 128])
    true = scripts.original.true_s / scripts.candidate.true_s
    assert [pair.ratio for pair in laps.pairs] == pytest.approx([true] * len(laps.pairs), rel=0.03)
