"""Compares signatures of pictures: a few values of each channel, as `probe.signature` takes them."""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workshop.probe.events import SAMPLES, Signatures

Array = NDArray[np.float32]

FLAT = 1e-3
"""Sum of squared deviations, at most, of the values of a channel that counts as constant."""

SAME_PICTURE = 0.05
"""Root mean square difference, at most, of two signatures of unit variance that belong to the same picture.
Rounding to uint8 gives 0.01; two crops of a photo differ by 0.1 and more."""


@lru_cache(maxsize=100_000)
def values_of(signatures: Signatures) -> Array:
    """Return the values that `probe.signature.encode` packed; the array is cached, so do not change it."""
    return np.frombuffer(signatures.halves, np.float16).reshape(signatures.shape).astype(np.float32)


def unit(values: Array) -> Array:
    """Scale signatures to mean 0 and variance 1 in each channel; a flat channel becomes 0."""
    channels = values.reshape(len(values), -1, SAMPLES)
    centred = channels - channels.mean(axis=2, keepdims=True)
    deviation = centred.std(axis=2, keepdims=True)
    scaled = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-6)
    return scaled.reshape(values.shape).astype(np.float32)


def scale_between(one: Array, other: Array) -> Array:
    """Return slope and offset of the line that fits each channel of two signatures, of shape (channels, 2).

    They are NaN for a channel whose values are all the same.
    """
    x, y = one.reshape(-1, SAMPLES), other.reshape(-1, SAMPLES)
    centred = x - x.mean(1, keepdims=True)
    spread = (centred**2).sum(1)
    slopes = np.where(spread > FLAT, (centred * y).sum(1) / np.maximum(spread, FLAT), np.nan)
    return np.stack([slopes, y.mean(1) - slopes * x.mean(1)], axis=1).astype(np.float32)


def line_after(second: Array, first: Array) -> Array:
    """Return slopes and offsets of two lines applied one after the other, for each channel."""
    if len(first) != len(second):  # of channels
        return np.full_like(second, np.nan)
    slopes, offsets = first.T
    return np.stack([second[:, 0] * slopes, second[:, 0] * offsets + second[:, 1]], axis=1)


def distance(pictures: Array, picture: Array) -> Array:
    """Return the root mean square difference of each signature, of shape (pictures, values), from `picture`."""
    return np.sqrt(np.mean((pictures - picture) ** 2, axis=1))


def is_same(one: Array, other: Array) -> bool:
    """Return whether two signatures belong to the same picture, perhaps scaled and shifted."""
    if one.shape != other.shape:
        return False
    units = unit(np.stack([one, other]))
    return bool(distance(units[:1], units[1])[0] < SAME_PICTURE)


class Pictures:
    """An index of signatures, each with the number of its transform, to find a picture in."""

    def __init__(self, pictures: Iterable[tuple[int, Array]]) -> None:
        by_width: dict[int, tuple[list[Array], list[int]]] = {}
        for number, rows in pictures:
            all_rows, numbers = by_width.setdefault(rows.shape[1], ([], []))
            all_rows.append(rows)
            numbers.extend([number] * len(rows))
        self.by_width = {width: (np.concatenate(rows), numbers) for width, (rows, numbers) in by_width.items()}

    def near(self, picture: Array) -> list[int]:
        """Return the transforms whose picture is the same as this one."""
        if len(picture) not in self.by_width:
            return []
        rows, numbers = self.by_width[len(picture)]
        return [numbers[index] for index in np.flatnonzero(distance(rows, picture) < SAME_PICTURE)]
