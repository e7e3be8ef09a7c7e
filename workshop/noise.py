"""Is a difference real, or noise? Welch's t-test with Bonferroni's correction, but not in the judge's race."""

from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ERROR_RATE = 0.05
"""Probability that any of the differences that are compared at once is taken for real although there is none."""

MANY = 1000.0
"""Degrees of freedom, from which on Student's distribution is the normal one."""


class MeanChange(NamedTuple):
    """The difference of two means, after less before; arrays with a value for each pair of samples."""

    mean: Floats
    error: Floats
    """The standard error of the difference; not a number if it cannot be told, which takes two values of each."""
    freedom: Floats
    """The degrees of freedom, of the error."""

    def margin(self, outside: float) -> Floats:
        """Return half the width of the interval that misses the true difference with this probability."""
        return self.error * np.vectorize(student_t, [float])(np.floor(self.freedom * 10) / 10, outside)

    def is_real(self, compared: int = 1) -> NDArray[np.bool_]:
        """Return whether a difference, one of so many, is more than noise; it is not if the noise is not known."""
        return abs(self.mean) > self.margin(ERROR_RATE / compared)

    def is_noise(self, compared: int = 1) -> NDArray[np.bool_]:
        """Return whether a difference, one of so many, may be chance alone; it is not if the noise is not known."""
        return abs(self.mean) <= self.margin(ERROR_RATE / compared)


def change(before: ArrayLike, after: ArrayLike) -> MeanChange:
    """Compare samples, whose values are along the last axis."""
    one, other = np.asarray(before, np.float64), np.asarray(after, np.float64)
    mean = other.mean(axis=-1) - one.mean(axis=-1)
    count, counts = one.shape[-1], other.shape[-1]
    if min(count, counts) < 2:
        return MeanChange(mean, np.full_like(mean, np.nan), np.ones_like(mean))
    squares = _error_squared(one), _error_squared(other)
    error = squares[0] + squares[1]
    below = squares[0] ** 2 / (count - 1) + squares[1] ** 2 / (counts - 1)
    freedom = np.divide(error**2, below, out=np.ones_like(mean), where=below > 0)
    return MeanChange(mean, np.sqrt(error), freedom)


def _error_squared(values: Floats) -> Floats:
    """Return the squared standard error of a mean.

    Values that resemble the one before tell less than independent ones: a machine that is busy for a while slows
    several steps in a row. So their number is taken as smaller by their correlation, if that is positive.
    """
    apart = values - values.mean(axis=-1, keepdims=True)
    squares = (apart**2).sum(axis=-1)
    products = (apart[..., 1:] * apart[..., :-1]).sum(axis=-1)
    alike = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0).clip(0)
    count = values.shape[-1]
    return squares / (count - 1) / count * (1 + alike) / (1 - alike)


@cache
def student_t(freedom: float, outside: float = ERROR_RATE) -> float:
    """Return how far from 0 Student's t is, in either direction, with a probability, for degrees of freedom.

    With t = sqrt(freedom) * tan(angle), its density is a power of the cosine.
    """
    if freedom >= MANY:
        return NormalDist().inv_cdf(1 - outside / 2)
    angle = np.linspace(0, np.pi / 2, 2049)
    within = np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1))
    return float(np.sqrt(freedom) * np.tan(np.interp(1 - outside, np.append(0, within / within[-1]), angle)))


def margin(values: ArrayLike, outside: float = ERROR_RATE) -> float:
    """Return half the width of the interval that misses the true mean with this probability; nan for one value."""
    sample = np.asarray(values, np.float64)
    if sample.size < 2:
        return float("nan")
    return float(np.sqrt(_error_squared(sample))) * student_t(sample.size - 1.0, outside)
