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
from workshop.judge.laps import headroom_rate
from workshop.judge.ledger import Ledger
from workshop.judge.race import MAX_PAIRS, Pair, RaceResult, race
from workshop.judge.race_verdict import MIN_CLEARANCE, Indecision, IndecisionAdvice, RaceReason, how_far, verdict_on
from workshop.judge.reasons import Reason
from workshop.judge.verdict import Outcome, Speed, Verdict, VerdictReason, broken
from workshop.probe.messages import Recomputation
from workshop.probe.phases import Phase
from workshop.runs.other_load import OtherLoad, Program
from workshop.runs.script_error import ScriptError

SPEED = Speed("old.py", "new.py", 8.0, 12.0, 1.5, 1.4, 1.6, 3, 1.5, {"forward": 2.0}, {"forward": 1.0}, None, None)
QUIET = OtherLoad(2, 0.0)
BUSY = OtherLoad(2, 1.2, (Program("python3 train_text.py", 3346, 70.0),))
OUTCOMES = {True: Outcome.DONE, False: Outcome.NOT_YET, None: Outcome.UNDECIDED}


def judged(
    result: RaceResult,
    solution_ratio: float | None = None,
    load: OtherLoad = QUIET,
    ledger: Ledger | None = None,
    most: float | None = None,
    **measured: Any,
) -> Verdict:
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
        **measured,
    )
    contest = of_two_scripts(Path("old.py"), Path("new.py"), (), most or result.target, 60.0)
    return verdict_on(contest, result, speed, (Ledger(), ledger or Ledger()), "", load, more_time=None)


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
        return race(iter(ratios()).__next__, lambda: 1.0, lambda: target, dice.choice([0.0, math.inf]))

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
        assert judged(result, result.target * MIN_CLEARANCE).outcome is verdict.outcome
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
    says = str(judged(RaceResult(1.5, pairs_of(1.4, 1.5, 1.7))).reasons[0])
    assert says.startswith("after 3 pairs of epochs, when the time ran out, the speedup may be 0.7")
    assert says.endswith("x; 1.5x is asked for: the times of the epochs differ too much")
    wide = judged(RaceResult(1.5, pairs_of(0.1, 9.0, 2.0)))
    assert str(wide.reasons[0].figures["may_be"]) == "anything: its pairs measured 0.10x to 9.00x"
    again = judged(RaceResult(1.5, pairs_of(1.6, 1.6, 1.61), pairs_of(1.3, 1.3, 1.3)))
    assert again.reasons[0].figures["after"] == RaceReason.RACES_DIFFER(one="1.60", other="1.30")


NEAR, NOISY = pairs_of(1.49, 1.51, 1.5, 1.5), pairs_of(0.9, 2.4, 1.1, 1.9)
WAITS, COMPUTES = {"data wait": 2.0, "forward": 1.0}, {"data wait": 0.1, "forward": 1.0}


@pytest.mark.parametrize(
    ("pairs", "known", "cause", "advice"),
    [
        (NEAR, {"ledger": Ledger(workers=2), "phases_after": WAITS}, Indecision.NEAR, "2 workers are near the limit"),
        (NEAR, {"phases_after": WAITS}, Indecision.NEAR, "The loop still waits for data for 67% of an epoch, and no "),
        (NEAR, {"ledger": Ledger(workers=2), "phases_after": COMPUTES}, Indecision.NEAR, "mostly computation"),
        (NOISY, {}, Indecision.NOISE, "what slows these cores lies outside"),
        (NEAR, {"load": BUSY}, Indecision.OTHER_LOAD, "Close python3 train_text.py (process 3346"),
        (NOISY, {"load": replace(BUSY, programs=())}, Indecision.OTHER_LOAD, "used 1.2 of 2 cores"),
        (NEAR, {"headroom_rate": 8.8}, Indecision.HEADROOM, "Faster loading alone cannot bring 1.5x"),
        (NOISY, {"solution_ratio": 1.2}, Indecision.RULED_OUT, "on a machine with more cores"),
        (pairs_of(1.0, 1.0, 1.01), {"solution_ratio": 1.2}, Indecision.RULED_OUT, "Go on with the next part"),
    ],
)
def test_an_undecided_race_has_a_cause_and_the_advice_goes_by_it(
    pairs: tuple[Pair, ...], known: dict[str, Any], cause: Indecision, advice: str
) -> None:
    verdict = judged(RaceResult(1.5, pairs), **known)
    assert (verdict.outcome, verdict.undecided) == (Outcome.UNDECIDED, cause)
    assert verdict.next.words.kind is IndecisionAdvice[cause.name]  # type: ignore[union-attr]
    assert advice in str(verdict.next)
    assert verdict.as_dict()["undecided"] == cause.value


def test_a_target_that_was_lowered_for_this_machine_is_explained() -> None:
    verdict = judged(RaceResult(1.25, pairs_of(1.6, 1.6, 1.61)), 2.5, most=1.5)
    assert verdict.outcome is Outcome.DONE
    lowered = "the solution reaches 2.5x here, so 1.25x is asked for on this machine, and not 1.5x"
    assert str(verdict.reasons[-1]) == lowered
    usual = judged(RaceResult(1.5, pairs_of(1.6, 1.6, 1.61)), 3.3, most=1.5)
    assert str(usual.reasons[-1]) == "the solution reaches 3.3x here"


@pytest.mark.parametrize(
    ("count", "pair_s", "left_s", "says"),
    [
        (1, 8.0, 90.0, "pair 1 of 3 to 30: 1.60x so far; 16 to 90 s left"),
        (2, 8.0, 90.0, "; 8 to 90 s left"),
        (2, 8.0, 3.0, "; 8 s left"),
        (4, 8.1, 900.0, "pair 4 of at most 30: 1.52x so far; up to 211 s left"),
        (3, 80.0, 900.0, "so far; up to 900 s left"),
        (30, 8.0, 900.0, "x so far"),
        (3, 0.25, 90.0, "so far; up to 7 s left"),
        (3, 0.25, 0.1, "so far, and the time is over"),
    ],
)
def test_the_time_that_is_left_follows_from_what_pairs_take_here_with_all_between_them(
    count: int, pair_s: float, left_s: float, says: str
) -> None:
    """Beside a heavy load, and where only some phases are raced, that is far more than what is timed."""
    pairs = pairs_of(*(1.6, 1.4, 1.5) * 10)[:count]
    assert how_far(RaceResult(1.5, pairs), count * pair_s, left_s).endswith(says)
    assert how_far(RaceResult(1.0, pairs_of(1.6, 1.6, 1.61)), 8.0, 90.0).endswith("so far, and that decides it")


def judged_slowdown(result: RaceResult, load: OtherLoad = QUIET) -> Verdict:
    low, high = result.interval
    speed = replace(SPEED, target=0.95, low=low, high=high)
    contest = replace(of_two_scripts(Path("old.py"), Path("new.py"), (), 0.95, 60.0), allowed=0.05)
    return verdict_on(contest, result, speed, (Ledger(), Ledger()), "", load, None)


def test_two_races_of_a_slowdown_that_disagree_are_named_and_not_the_time() -> None:
    result = RaceResult(0.95, pairs_of(0.90, 0.901, 0.902), again=pairs_of(0.99, 0.991, 0.992))
    verdict = judged_slowdown(result)
    assert verdict.outcome is Outcome.UNDECIDED
    says = "with 0.90x in one run of both and 0.99x in another, its speed may be "
    assert str(verdict.reasons[0]).startswith(says)


def test_a_slowdown_is_told_so_that_it_means_something() -> None:
    wide = judged_slowdown(RaceResult(0.95, pairs_of(0.1, 9.0, 2.0)))
    assert "its speed may be anything: its pairs measured 0.10x to 9.00x; 0.95x is asked for: " in str(wide.reasons[0])
    assert wide.undecided == Indecision.NOISE
    busy = judged_slowdown(RaceResult(0.95, pairs_of(0.1, 9.0, 2.0)), BUSY)
    assert "Close python3 train_text.py" in str(busy.next)
    much = judged_slowdown(RaceResult(0.95, pairs_of(0.05, 0.05, 0.05)))
    assert str(much.reasons[0]).startswith("1,900 % slower than old.py, same work (speed: 0.05x to 0.05x)")
    slower = judged_slowdown(RaceResult(0.95, pairs_of(*3 * (1e-6, 1e-4))))
    assert slower.words == "slower than allowed"
    assert slower.reasons[0].figures["may_be"] == "below 0.95x"
    faster = judged_slowdown(RaceResult(0.95, pairs_of(*3 * (1e6, 1e4))))
    assert faster.words == "faster"
    assert re.fullmatch(r"at least [\d.]+x", faster.reasons[0].figures["may_be"])
    both = judged_slowdown(RaceResult(0.95, pairs_of(0.9, 1.1, 1.2)))
    assert re.fullmatch(r"[\d.]+x to [\d.]+x", both.reasons[0].figures["may_be"]), "one unit for both ends"


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (Recomputation(error="no batch"), RaceReason.NOT_TAKEN_AGAIN(base="old.py", error="no batch")),
        (Recomputation(loss=1.0, recorded_loss=2.0), RaceReason.OTHERWISE_AGAIN(base="old.py", aspects="loss")),
    ],
    ids=["not-taken", "otherwise"],
)
def test_steps_that_cannot_be_taken_again_are_told(again: Recomputation, why: Reason) -> None:
    contest = of_two_scripts(Path("old.py"), Path("new.py"), (), 1.5, 60.0)
    original = Ledger()
    original.recomputed = [again]
    verdict = verdict_on(contest, RaceResult(1.5, pairs_of(2, 2, 2)), SPEED, (original, Ledger()), "", QUIET, None)
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.reasons[0] == VerdictReason.WORK_UNSEEN(why)
    assert verdict.as_dict()["kinds"] == ["verdict-work-unseen", why.kind.label, "race-speedup"]


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
