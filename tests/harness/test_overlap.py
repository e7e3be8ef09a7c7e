"""Intervals, and what they have in common."""

import pytest

from workshop.harness.overlap import common, length, merged


@pytest.mark.parametrize(
    ("intervals", "union"),
    [
        ([], []),
        ([(0, 1)], [(0, 1)]),
        ([(2, 3), (0, 1)], [(0, 1), (2, 3)]),
        ([(0, 2), (1, 3), (3, 4)], [(0, 4)]),
        ([(0, 9), (1, 2), (3, 4)], [(0, 9)]),
    ],
)
def test_merged(intervals: list[tuple[float, float]], union: list[tuple[float, float]]) -> None:
    assert merged(intervals) == union


def test_what_is_hidden_of_the_copies() -> None:
    copies = [(0, 2), (5, 6), (8, 9)]
    kernels = [(1, 4), (1.5, 5.5), (20, 30)]
    assert length(merged(copies)) == 4
    assert common(copies, kernels) == 1 + 0.5
    assert common(copies, []) == 0
    assert common(copies, copies) == 4
