"""A verdict says what the race's interval says, also as it is printed."""

import math
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workshop.cli.result_text import print_verdict
from workshop.judge.contest import of_two_scripts
from workshop.judge.headroom import headroom_rate
from workshop.judge.ledger import Ledger
from workshop.judge.race import MAX_PAIRS, Pair, RaceResult, race
from workshop.judge.race_verdict import ROOM, race_verdict, verdict_on
from workshop.judge.verdict import Outcome, Speed, Verdict, broken
from workshop.probe.messages import Recomputation
from workshop.probe.phases import Phase
from workshop.processes.script import ScriptError

SPEED = Speed("old.py", "new.py", 8.0, 12.0, 1.5, 1.4, 1.6, 3, 1.5, {"forward": 2.0}, {"forward": 1.0}, None, None)
OUTCOMES = {True: Outcome.DONE, False: Outcome.NOT_YET, None: Outcome.UNDECIDED}


def judged(result: RaceResult, solution_ratio: float | None = None) -> Verdict:
    low, high = result.interval
    count = len(result.pairs + result.again)
    speed = replace(
        SPEED,
        target=result.target,
        ratio=result.ratio,
        low=low,
        high=high,
        pairs=count,
        solution_ratio=solution_ratio,
    )
    return race_verdict("new.py", result, speed, f"Speedup {speed.text(speed.ratio)}x over old.py", then="", advice="")


def pairs_of(*ratios: float) -> tuple[Pair, ...]:
    return tuple(Pair(ratio, 1.0) for ratio in ratios)


def of_all_kinds(dice: random.Random) -> RaceResult:
    """A race with noise of any kind: quiet or busy, with outliers, with a drift, ended early, or raced again."""
    target = dice.choice([0.8, 1.1, 1.5, 1.234567, 3.0])
    scatter, outliers = 10 ** dice.uniform(-4, 0), dice.choice([0.0, 0.1])
    true, drift = target * math.exp(dice.gauss(0.0, 0.2)), dice.choice([0.0, 0.02])

    def ratios() -> list[float]:
        logs = [dice.gauss(0.0, scatter) + number * drift for number in range(MAX_PAIRS)]
        return [true * math.exp(log) * (2.0 if dice.random() < outliers else 1.0) for log in logs]

    def run() -> RaceResult:
        return race(iter(ratios()).__next__, lambda: 1.0, target, dice.choice([0.0, math.inf]))

    result = run()
    return replace(result, again=run().pairs) if result.faster and dice.random() < 0.5 else result


def test_the_verdict_and_its_printed_interval_never_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(0)
    outcomes = set()
    for _ in range(250):
        result = of_all_kinds(dice)
        low, high = result.interval
        assert low <= result.ratio * (1 + 1e-12)
        assert result.ratio <= high * (1 + 1e-12)
        assert (result.faster is True) == (low >= result.target)
        assert (result.faster is False) == (high < result.target)
        verdict = judged(result)
        assert verdict.outcome is OUTCOMES[result.faster]
        assert judged(result, result.target * ROOM).outcome is verdict.outcome
        outcomes.add(verdict.outcome)

        print_verdict(verdict)
        printed = capsys.readouterr().out
        figure = r"([\d.]+)"
        shown = re.search(rf"speedup {figure}x, the mean of \d+ pairs *\n95 % interval +(.*)", printed)
        assert shown, printed
        ratio, interval = float(shown[1]), shown[2].strip()
        if ends := re.fullmatch(rf"{figure}x to {figure}x", interval):
            low, high = map(float, ends.groups())
        else:
            outcome = {"at least": Outcome.DONE, "below": Outcome.NOT_YET, "anything": Outcome.UNDECIDED}
            assert verdict.outcome is next(outcome[begin] for begin in outcome if interval.startswith(begin)), printed
        assert (verdict.outcome is Outcome.DONE) == (low >= result.target), printed
        assert (verdict.outcome is Outcome.NOT_YET) == (high < result.target), printed
        assert (ratio >= result.target) == (result.ratio >= result.target), printed
    assert outcomes == set(OUTCOMES.values())


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.497, "1.497"), (1.4949, "1.49"), (1.5, "1.50"), (1.5004, "1.50"), (1.49999996, "1.49999996"), (31.0, "31.00")],
)
def test_rounding_does_not_carry_a_ratio_over_the_target(ratio: float, text: str) -> None:
    assert SPEED.text(ratio) == text


def test_an_undecided_race_says_what_the_speedup_may_be() -> None:
    verdict = judged(RaceResult(1.5, pairs_of(1.4, 1.5, 1.7)))
    assert verdict.reasons[0].startswith("after 3 pairs of epochs, when the time ran out, the speedup may be 0.7")
    assert verdict.reasons[0].endswith("x; too noisy, or too close")
    wide = judged(RaceResult(1.5, pairs_of(0.1, 9.0, 2.0)))
    assert "the speedup may be anything: the pairs differ too much" in wide.reasons[0]
    again = judged(RaceResult(1.5, pairs_of(1.6, 1.6, 1.61), pairs_of(1.3, 1.3, 1.3)))
    assert again.reasons[0].startswith(
        "with 1.60x in one run of both and 1.30x in another, the speedup may be 1.30x to 1.6"
    )


def test_a_machine_on_which_the_solution_is_not_fast_enough_shows_no_failure() -> None:
    slow, fast = RaceResult(1.5, pairs_of(1.2, 1.2, 1.21)), RaceResult(1.5, pairs_of(1.6, 1.6, 1.61))
    assert judged(slow, 1.6).outcome is Outcome.UNDECIDED
    hardly = "this machine hardly shows it now: even the solution reaches 1.6x here, and the target is 1.5x"
    assert judged(slow, 1.6).reasons[0] == hardly
    assert judged(fast, 1.6).outcome is Outcome.DONE


def judged_slowdown(result: RaceResult) -> Verdict:
    low, high = result.interval
    speed = replace(SPEED, target=0.95, low=low, high=high)
    contest = replace(of_two_scripts(Path("old.py"), Path("new.py"), (), 0.95, 60.0), allowed=0.05)
    return verdict_on(contest, result, speed, (Ledger(), Ledger()), "", "")


def test_two_races_of_a_slowdown_that_disagree_are_named_and_not_the_time() -> None:
    result = RaceResult(0.95, pairs_of(0.90, 0.901, 0.902), again=pairs_of(0.99, 0.991, 0.992))
    verdict = judged_slowdown(result)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.reasons[0].startswith("with 0.90x in one run of both and 0.99x in another, its speed may be ")


def test_a_slowdown_is_told_so_that_it_means_something() -> None:
    wide = judged_slowdown(RaceResult(0.95, pairs_of(0.1, 9.0, 2.0)))
    assert "its speed may be anything: the pairs differ too much; too noisy" in wide.reasons[0]
    much = judged_slowdown(RaceResult(0.95, pairs_of(0.05, 0.05, 0.05)))
    assert much.reasons[0].startswith("1,900 % slower than old.py, same work (speed: 0.05x to 0.05x)")
    slower = judged_slowdown(RaceResult(0.95, pairs_of(*3 * (1e-6, 1e-4))))
    assert slower.words == "slower than allowed"
    assert "same work (speed: below 0.95x)" in slower.reasons[0]
    faster = judged_slowdown(RaceResult(0.95, pairs_of(*3 * (1e6, 1e4))))
    assert faster.words == "faster"
    assert re.search(r"same work \(speed: at least [\d.]+x\)", faster.reasons[0])
    both = judged_slowdown(RaceResult(0.95, pairs_of(0.9, 1.1, 1.2)))
    assert re.search(r"its speed may be [\d.]+x to [\d.]+x; too noisy", both.reasons[0]), "one unit for both ends"


@pytest.mark.parametrize(
    ("again", "says"),
    [
        (
            Recomputation(error="it draws no batch"),
            "old.py could not take one of its own steps again: it draws no batch",
        ),
        (
            Recomputation(loss=1.0, recorded_loss=2.0),
            "when old.py takes one of its own steps again, it comes to another ",
        ),
    ],
    ids=["not-taken", "otherwise"],
)
def test_steps_that_cannot_be_taken_again_are_told(again: Recomputation, says: str) -> None:
    contest = of_two_scripts(Path("old.py"), Path("new.py"), (), 1.5, 60.0)
    original = Ledger()
    original.recomputed = [again]
    verdict = verdict_on(contest, RaceResult(1.5, pairs_of(2, 2, 2)), SPEED, (original, Ledger()), "", "")
    assert verdict.outcome is Outcome.UNDECIDED
    assert says in verdict.reasons[0]


@pytest.mark.parametrize(("seconds", "is_said"), [(0.5, True), (1.0, False), (3.0, False)])
def test_a_headroom_below_what_was_reached_is_never_printed(
    seconds: float, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a busy machine, the one epoch with batches from memory may take longer than those of the race."""
    report = SimpleNamespace(phases=dict.fromkeys(Phase, 0.1), from_memory=1)
    epoch = SimpleNamespace(report=report, seconds=seconds, seconds_in=lambda phases: 0.1)
    scripts: Any = SimpleNamespace(
        steps=1,
        original=SimpleNamespace(epoch=lambda _: epoch),
        original_ledger=lambda: SimpleNamespace(items_in=lambda _: 12),
    )
    rate = headroom_rate(scripts, [epoch], [epoch], 12.0)  # type: ignore[list-item]
    print_verdict(Verdict("new.py", Outcome.DONE, (), replace(SPEED, rate_after=12.0, headroom_rate=rate)))
    assert ("headroom" in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(
    ("script", "exit_code", "headline", "outcome"),
    [
        ("old.py", 1, "the original crashed", Outcome.BROKEN),
        ("old.py", None, "the original was stopped", Outcome.BROKEN),
        ("old.py", 0, "the original does not train", Outcome.BROKEN),
        ("new.py", 1, "crashed", Outcome.BROKEN),
        ("new.py", 0, "not the same work", Outcome.OTHER_WORK),
    ],
)
def test_it_is_said_which_script_broke(script: str, exit_code: int | None, headline: str, outcome: Outcome) -> None:
    verdict = broken("new.py", ScriptError("it ended", exit_code, "", script), "old.py")
    assert (verdict.headline, verdict.outcome) == (headline, outcome)
