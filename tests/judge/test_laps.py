"""What is told of the laps of a race."""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from workshop.judge.contest import of_two_scripts
from workshop.judge.judged_script import TimedEpoch
from workshop.judge.laps import Laps, under_one_name
from workshop.judge.ledger import Ledger
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


@dataclass(eq=False)
class MadeScript:
    """A script on a clock of its own, which waits every so many steps: for all that its workers load.

    It waits for nothing in the first steps of a run, with which it takes what is `ready`.
    """

    waits_every: int
    whole_steps: int | None
    wait_s: float = 0.16
    ready: int = 0
    taken: int = 0

    def epoch(self, steps: int) -> TimedEpoch:
        waits = sum(n >= self.ready and n % self.waits_every == 0 for n in range(self.taken, self.taken + steps))
        self.taken += steps
        phases = dict.fromkeys(Phase, 0.0) | {Phase.DATA_WAIT: waits * self.wait_s, Phase.OTHER: steps * 0.001}
        return TimedEpoch(sum(phases.values()), EpochReport(True, steps, phases, None, [], 0), self.taken - steps)

    def stop(self) -> None:
        self.taken = 0


class MadeScripts(ExitStack):
    """Two of them, of which the judge's epochs are so many steps."""

    solution_ratio, load, knows_solution, deadline_s = None, None, True, math.inf

    def __init__(self, original: MadeScript, candidate: MadeScript, steps: int, budget_s: float) -> None:
        super().__init__()
        self.original, self.candidate, self.steps = original, candidate, steps
        self.plan, self.replaced_clocks, self.samples = TimePlan(budget_s), set[str](), SampledSteps()
        self.plan.original_s, self.plan.candidate_s = (each.epoch(steps).seconds for each in (original, candidate))
        two = [Path("base.py"), Path("workers.py")]
        self.contest = of_two_scripts(*two, [], 1.1, budget_s)

    def epoch(self, script: MadeScript, sample_step: int | None = None, steps: int | None = None) -> TimedEpoch:
        return script.epoch(steps or self.steps)

    def align(self) -> None:
        pass

    def say(self, _: object) -> None:
        pass

    say_with_rest = say

    def some_step(self, steps: int) -> int:
        return steps - 1

    def ledger(self) -> Ledger:
        return Ledger(ahead=64)


@pytest.mark.parametrize("batches", [16, 32, 64, 200])
@pytest.mark.parametrize("steps", [3, 9, 50])
def test_what_workers_load_ahead_is_loaded_in_a_lap(batches: int, steps: int) -> None:
    """No pair shows more than what the workers can load, and the pairs agree."""
    whole = batches if batches > steps else None
    original, candidate = MadeScript(1, whole), MadeScript(batches, whole)
    laps = Laps(MadeScripts(original, candidate, min(steps, batches), budget_s=3600.0), None)  # type: ignore[arg-type]
    laps.race()
    true = batches * 0.161 / (0.16 + batches * 0.001)
    assert [pair.ratio for pair in laps.pairs] == pytest.approx([true] * len(laps.pairs), rel=0.01)


def test_what_is_loaded_before_a_race_counts_for_no_lap() -> None:
    """Where an epoch is too long for a lap; also after the restart, by which a small speedup must show again."""
    original, candidate = MadeScript(1, 10**7, 0.006), MadeScript(1, 10**7, 0.004, ready=64)
    laps = Laps(MadeScripts(original, candidate, 9, budget_s=3600.0), None)  # type: ignore[arg-type]
    assert laps.race().again
    assert [pair.ratio for pair in laps.pairs] == pytest.approx([7 / 5] * len(laps.pairs))
