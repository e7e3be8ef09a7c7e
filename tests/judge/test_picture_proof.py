"""The chance by which pictures are blank."""

import math

import pytest

from workshop.judge.two_samples import hypergeometric


@pytest.mark.parametrize(("own", "others", "count"), [(4, 6, 5), (3, 2, 5), (7, 1, 3), (0, 4, 2), (5, 5, 0)])
def test_the_chances_are_those_of_counting(own: int, others: int, count: int) -> None:
    ways = [math.comb(own, n) * math.comb(others, count - n) for n in range(count + 1)]
    exact = [each / math.comb(own + others, count) for each in ways]
    assert hypergeometric(own, others, count) == pytest.approx(exact)


def test_many_items_take_no_time() -> None:
    """Where each input is a single number, all are blank; to count the ways took minutes."""
    chances = hypergeometric(20_000, 30_000, 50_000)
    assert (chances[20_000], chances.sum()) == pytest.approx((1, 1))
