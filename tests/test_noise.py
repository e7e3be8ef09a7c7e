"""Differences of means and their intervals."""

import numpy as np
import pytest

from workshop import noise


@pytest.mark.parametrize(
    ("t", "freedom", "outside"),
    [(0.0, 4, 1.0), (2.776, 4, 0.05), (12.706, 1, 0.05), (3.169, 10, 0.01), (1.965, 500, 0.05), (12.924, 3, 0.001)],
)
def test_quantiles_of_students_t(t: float, freedom: float, outside: float) -> None:
    """The values of printed tables."""
    assert noise.student_t(freedom, outside) == pytest.approx(t, rel=1e-3)


def test_the_interval_of_a_difference() -> None:
    found = noise.change([[1, 2, 3, 4], [5, 5, 5, 5]], [[9, 7, 8, 6], [6, 6, 6, 6]])
    assert found.mean == pytest.approx([5, 1])
    assert found.margin(noise.ERROR_RATE)[1] == 0, "what never varies is certain"
    assert np.isnan(noise.change([1.0], [2.0, 3.0]).margin(noise.ERROR_RATE)), "one value says nothing of the noise"


def _false_alarms(alike: float) -> float:
    """Return how often a difference is seen where there is none; values resemble the one before by a correlation."""
    values = np.random.default_rng(1).normal(size=(2, 2000, 12))
    for at in range(1, values.shape[-1]):
        values[..., at] = alike * values[..., at - 1] + np.sqrt(1 - alike**2) * values[..., at]
    found = noise.change(values[0], values[1])
    return float(found.is_real().mean())


def test_noise_is_seldom_taken_for_a_difference() -> None:
    assert 0.02 < _false_alarms(0.0) < 0.06
    assert _false_alarms(0.5) < 0.16, "Welch's test alone would say 0.26"
