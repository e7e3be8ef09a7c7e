"""The difference of two means with a confidence interval, by Welch's t-test."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

PARTS = 2048
"""The number of parts that Student's distribution is integrated in."""


class Difference(NamedTuple):
    """The difference of two means, after less before; arrays with a value for each pair of samples."""

    mean: Floats
    error: Floats
    """The standard error of the difference; not a number if it cannot be told, which takes two values of each."""
    freedom: Floats
    """The degrees of freedom."""

    def margin(self, outside: float) -> Floats:
        """Return half the width of the interval that misses the true difference with this probability."""
        return self.error * quantile(self.freedom, outside)


def difference(before: ArrayLike, after: ArrayLike) -> Difference:
    """Compare samples, whose values are along the last axis."""
    one, other = np.asarray(before, np.float64), np.asarray(after, np.float64)
    mean = other.mean(axis=-1) - one.mean(axis=-1)
    count, counts = one.shape[-1], other.shape[-1]
    if min(count, counts) < 2:
        return Difference(mean, np.full_like(mean, np.nan), np.ones_like(mean))
    squares = _error_squared(one), _error_squared(other)
    error = squares[0] + squares[1]
    below = squares[0] ** 2 / (count - 1) + squares[1] ** 2 / (counts - 1)
    freedom = np.divide(error**2, below, out=np.ones_like(mean), where=below > 0)
    return Difference(mean, np.sqrt(error), freedom)


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


def quantile(freedom: Floats, outside: float) -> Floats:
    """Return how far from 0 Student's t is, in either direction, with a probability, for degrees of freedom.

    With t = sqrt(freedom) * tan(angle), its density is a power of the cosine. Degrees of freedom are rounded down to
    tenths, which makes an interval hardly wider, and leaves few of them to integrate.
    """
    few, where = np.unique(np.floor(freedom * 10) / 10, return_inverse=True)
    angle = np.linspace(0, np.pi / 2, PARTS + 1)
    middle = (angle[1:] + angle[:-1]) / 2
    within = np.cumsum(np.cos(middle) ** (few[..., None] - 1), axis=-1)
    found = [np.interp(1 - outside, np.append(0, row / row[-1]), angle) for row in within]
    return (np.sqrt(few) * np.tan(found))[where].reshape(np.shape(freedom))
