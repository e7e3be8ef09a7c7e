"""The race ends when the target lies outside of the ratio's interval, whoever is slower today."""

import math
import random

import pytest

from workshop.judge.race import MAX_PAIRS, Pair, RaceResult, race


def run(ratios: list[float], target: float = 2.0, budget_s: float = math.inf) -> RaceResult:
    """A race in which the n-th pair has the n-th ratio."""
    return race(iter(ratios).__next__, lambda: 1.0, lambda: target, budget_s)


def pairs_of(*ratios: float) -> tuple[Pair, ...]:
    return tuple(Pair(ratio, 1.0) for ratio in ratios)


def noisy(target: float, scatter: float, dice: random.Random) -> list[float]:
    """Pairs of a script exactly at the target."""
    return [target * math.exp(dice.gauss(0.0, scatter)) for _ in range(MAX_PAIRS)]


@pytest.mark.parametrize(
    ("ratios", "faster", "pairs"),
    [
        ([3, 3, 3], True, 3),
        ([2, 2, 2], True, 3),  # the target itself is reached
        ([1, 1, 1], False, 3),
        ([2.5, 2.6, 2.45], True, 3),
        ([1.6, 1.57, 1.63], False, 3),
        ([2.5, 3.0, 2.2, 2.6, 2.7, 2.4, 2.8, 2.5], True, 6),
        ([1, 3] * 15, None, MAX_PAIRS),
    ],
)
def test_it_ends_when_the_target_is_outside_of_the_interval(
    ratios: list[float], faster: bool | None, pairs: int
) -> None:
    result = run(ratios)
    assert result.faster is faster
    assert len(result.pairs) == pairs


def test_three_wins_that_differ_widely_decide_nothing() -> None:
    result = run([5, 2.1, 3, 3, 3, 3, 3, 3, 3, 3])
    assert RaceResult(2.0, result.pairs[:3]).faster is None
    assert result.faster
    assert len(result.pairs) == 8


def test_it_goes_on_while_the_interval_says_little() -> None:
    """The target is outside after three pairs: 17.5x to 391x would tell nothing of what the script can do."""
    ratios = [33.0, 70.0, 50.0, 60.0, 45.0, 55.0, 50.0, 48.0]
    assert RaceResult(1.1, pairs_of(*ratios[:3])).faster
    low, high = run(ratios, target=1.1).interval
    assert high <= 2 * low
    assert run(ratios, target=1.1, budget_s=0.0).faster, "without time for another pair"


def test_epochs_that_differ_by_themselves_show_no_gain() -> None:
    """The first three pairs are won, and none of them says whether the next one is."""
    result = run([1.13, 1.5, 1.12, 0.9, 1.0, 0.8, 1.2] + [1.0] * 23, target=1.1)
    assert not result.faster


def test_they_take_turns_in_going_first() -> None:
    order: list[str] = []
    race(lambda: order.append("A") or 1.0, lambda: order.append("B") or 1.0, target=lambda: 0.5)
    assert "".join(order) == "ABBAAB"


def test_without_time_it_ends_undecided_but_not_before_three_pairs() -> None:
    result = run([3, 1, 3, 3, 3], budget_s=0.0)
    assert result.faster is None
    assert len(result.pairs) == 3


def test_the_figures_of_a_result() -> None:
    result = RaceResult(1.5, pairs_of(2.0, 4.0, 8.0))
    assert result.ratio == pytest.approx(4)
    # Logs of mean ln 4 and deviation ln 2; with 2 degrees of freedom, 0.62 % of Student's t are beyond 12.6409.
    half = 12.6409 * math.log(2) / math.sqrt(3)
    assert result.interval == pytest.approx((4 / math.exp(half), 4 * math.exp(half)), rel=1e-4)
    assert RaceResult(1.5, pairs_of(2.0, 2.0)).interval == (0.0, math.inf)


@pytest.mark.parametrize(
    ("again", "faster"), [((1.8, 1.8, 1.8), True), ((1.2, 1.2, 1.2), None), ((1.3, 1.8, 1.7), None)]
)
def test_a_second_race_must_agree(again: tuple[float, ...], faster: bool | None) -> None:
    """The interval reaches over those of both."""
    result = RaceResult(1.5, pairs_of(1.6, 1.6, 1.6), pairs_of(*again))
    assert result.faster is faster
    low, high = result.interval
    assert low <= min(1.6, *again) < result.ratio < max(1.6, *again) <= high


def test_a_script_at_the_target_is_seldom_called_faster_or_slower() -> None:
    """However much the pairs scatter: each of the two ends is wrong, and has a chance of 2.5 % at most."""
    dice = random.Random(0)
    for scatter in (0.01, 0.1, 1.0):
        ends = [run(noisy(2.0, scatter, dice)).faster for _ in range(250)]
        assert 0 < ends.count(True) / len(ends) < 0.055, "2.5 %, and three standard errors"
        assert 0 < ends.count(False) / len(ends) < 0.055


def test_on_a_quiet_machine_four_pairs_are_enough() -> None:
    """Pairs scatter by 3 %, and the script lies 1.25 times above or below the target."""
    dice = random.Random(0)
    for share in (0.8, 1.25):
        results = [run([share * ratio for ratio in noisy(2.0, 0.03, dice)]) for _ in range(200)]
        assert all(result.faster is (share > 1) for result in results)
        assert sum(len(result.pairs) for result in results) / len(results) < 3.5


def test_it_forgives_one_pair_that_another_program_disturbed() -> None:
    result = run([2.6, 5.2, 2.5, 2.55, 2.6, 2.45, 2.6, 2.5, 2.6, 2.55, 2.6])
    assert result.faster
    assert len(result.pairs) < 11
