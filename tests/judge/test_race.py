"""The race decides as Wald's test does, whoever is slower today."""

import math
import random

import pytest

from workshop.judge.race import MAX_PAIRS, Pair, RaceResult, race


def run(ratios: list[float], target: float = 2.0, budget_s: float = math.inf) -> RaceResult:
    """A race in which the n-th pair has the n-th ratio."""
    return race(iter(ratios).__next__, lambda: 1.0, target, budget_s)


@pytest.mark.parametrize(
    ("ratios", "faster", "pairs"),
    [
        ([3, 3, 3], True, 3),
        ([2, 2, 2], True, 3),  # the target itself is reached
        ([1, 1, 1], False, 3),
        ([1, 3, 3, 3, 3], True, 5),
        ([3, 1, 1, 1, 1], False, 5),
        ([3, 3, 1, 3, 3], True, 5),
        ([1, 3] * 10, None, MAX_PAIRS),
    ],
)
def test_a_lead_of_three_decides(ratios: list[float], faster: bool | None, pairs: int) -> None:
    result = run(ratios)
    assert result.faster is faster
    assert len(result.pairs) == pairs


def test_pairs_that_agree_about_nothing_else_decide_nothing() -> None:
    result = run([2, 40, 3, 3, 3, 3, 3])
    assert RaceResult(2.0, result.pairs[:3]).faster is None, "the 95 % interval is from 0.1 to 300"
    assert result.faster
    assert len(result.pairs) == 7


def test_epochs_that_differ_by_themselves_show_no_gain() -> None:
    """Three pairs are won by a small target, and none of them says whether the next one is."""
    result = run([1.13, 1.5, 1.12, 0.9, 1.0, 0.8, 1.2] + [1.0] * 8, target=1.1)
    assert RaceResult(1.1, result.pairs[:3]).lead == 3
    assert RaceResult(1.1, result.pairs[:3]).faster is None
    assert not result.faster


def test_they_take_turns_in_going_first() -> None:
    order: list[str] = []
    race(lambda: order.append("A") or 1.0, lambda: order.append("B") or 1.0, target=0.5)
    assert "".join(order) == "ABBAAB"


def test_without_time_it_ends_undecided_but_not_before_three_pairs() -> None:
    result = run([3, 1, 3, 3, 3], budget_s=0.0)
    assert result.faster is None
    assert len(result.pairs) == 3


def test_the_figures_of_a_result() -> None:
    result = RaceResult(1.5, (Pair(2.0, 1.0), Pair(4.0, 1.0), Pair(8.0, 1.0)))
    assert result.ratio == 4
    # Logs of mean ln 4 and standard deviation ln 2; Student's t is 4.303 for 2 degrees of freedom.
    half = 4.30265 * math.log(2) / math.sqrt(3)
    assert result.interval == pytest.approx((4 / math.exp(half), 4 * math.exp(half)), rel=1e-4)


@pytest.mark.parametrize(("chance", "wrong"), [(0.9, False), (0.1, True)])
def test_it_errs_as_seldom_as_it_says(chance: float, wrong: bool) -> None:
    """A win has a chance of 0.9, or 0.1, and one race in a hundred may go wrong: 1 / (1 + 9^3) do, in theory."""
    dice = random.Random(0)
    trials = 5_000
    errors = sum(
        run([3.0 if dice.random() < chance else 1.0 for _ in range(MAX_PAIRS)]).faster is wrong for _ in range(trials)
    )
    assert 0 < errors / trials < 0.01
