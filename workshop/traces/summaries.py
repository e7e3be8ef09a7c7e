"""Summarises columns of numbers, and gathers the small ones of many groups."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.traces.intervals import Ints

QUARTILES = {"min": 0, "25%": 25, "50%": 50, "75%": 75, "max": 100}

OTHERS = -1
"""The name that stands for all small ones together."""


def described(values: NDArray[Any]) -> dict[str, float | None]:
    """Return the count, the mean, the standard deviation and the quartiles of some values."""
    quartiles = np.percentile(values, [*QUARTILES.values()]).tolist()
    std = float(values.std(ddof=1)) if len(values) > 1 else None
    spread = dict(zip(QUARTILES, quartiles, strict=True))
    return {"count": len(values), "mean": float(values.mean()), "std": std} | spread


def time_statistics(dur: Ints) -> dict[str, float]:
    """Return the sum, the extremes, the mean and the standard deviation of some durations in ns; in µs."""
    stats = {"sum": dur.sum(), "max": dur.max(), "min": dur.min(), "mean": dur.mean()}
    stddev = float(dur.std(ddof=1)) / 1000 if len(dur) > 1 else 0.0
    return {f"{stat} (us)": float(value) / 1000 for stat, value in stats.items()} | {"stddev": stddev}


def large_ones(name: Ints, dur: Ints, most: int, share: float, kept: Iterable[int] = ()) -> Ints:
    """Return the names of some events, with `OTHERS` in place of names whose events take little time.

    Nothing is changed if there are no more than `most` names. Else, names are large from the longest on: at most
    `most`, and as long as the time of all of them up to there is below its quantile `share` over all names.

    Args:
        name: a number for each event that stands for its name.
        dur: the duration of each event.
        most: the largest number of names that stay.
        share: a quantile, from 0 to 1.
        kept: names that stay in any case.
    """
    names, of = np.unique(name, return_inverse=True)
    if len(names) <= most:
        return name
    order = np.argsort(-np.bincount(of, dur), kind="stable")
    times = np.cumsum(np.bincount(of, dur)[order])
    large = np.zeros(len(names), np.bool_)
    large[order[(times <= np.quantile(times, share)) & (np.arange(len(names)) < most)]] = True
    return np.where((large | np.isin(names, [*kept]))[of], name, OTHERS)
