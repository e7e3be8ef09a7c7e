"""Differences of means and their intervals."""

import numpy as np
import pytest

from workshop.profiles import welch

OUTSIDE = 0.05


@pytest.mark.parametrize(
    ("t", "freedom", "outside"),
    [(0.0, 4, 1.0), (2.776, 4, 0.05), (12.706, 1, 0.05), (3.169, 10, 0.01), (1.965, 500, 0.05), (12.924, 3, 0.001)],
)
def test_quantiles_of_students_t(t: float, freedom: float, outside: float) -> None:
    """The values of printed tables."""
    assert welch.quantile(np.array(float(freedom)), outside) == pytest.approx(t, rel=1e-3)


def test_the_interval_of_a_difference() -> None:
    found = welch.difference([[1, 2, 3, 4], [5, 5, 5, 5]], [[9, 7, 8, 6], [6, 6, 6, 6]])
    assert found.mean == pytest.approx([5, 1])
    assert found.margin(OUTSIDE)[1] == 0, "what never varies is certain"
    assert np.isnan(welch.difference([1.0], [2.0, 3.0]).margin(OUTSIDE)), "one value says nothing of the noise"


def _false_alarms(alike: float) -> float:
    """Return how often a difference is seen where there is none; values resemble the one before by a correlation."""
    noise = np.random.default_rng(1).normal(size=(2, 2000, 12))
    for at in range(1, noise.shape[-1]):
        noise[..., at] = alike * noise[..., at - 1] + np.sqrt(1 - alike**2) * noise[..., at]
    found = welch.difference(noise[0], noise[1])
    return float((abs(found.mean) > found.margin(OUTSIDE)).mean())


def test_noise_is_seldom_taken_for_a_difference() -> None:
    assert 0.02 < _false_alarms(0.0) < 0.06
    assert _false_alarms(0.5) < 0.16, "Welch's test alone would say 0.26"
