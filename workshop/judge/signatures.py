"""Compares signatures of pictures: a few values of each channel, as `probe.signature` takes them."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workshop.probe.events import SAMPLES, Signatures

Array = NDArray[np.float32]

SAME_PICTURE = 0.05
"""Root mean square difference, at most, of two signatures of unit variance that belong to the same picture.
Rounding to uint8 gives 0.01; two crops of a photo differ by 0.1 and more."""


@lru_cache(maxsize=100_000)
def values_of(signatures: Signatures) -> Array:
    """Return the values that `probe.signature.encode` packed; the array is cached, so do not change it."""
    return np.frombuffer(signatures.halves, np.float16).reshape(signatures.shape).astype(np.float32)


def is_same(one: Array, other: Array) -> bool:
    """Return whether two signatures belong to the same picture, perhaps scaled and shifted."""
    if one.shape != other.shape:
        return False
    ours, theirs = map(_unit, (one, other))
    return float(np.sqrt(np.mean((ours - theirs) ** 2))) < SAME_PICTURE


def _unit(values: Array) -> Array:
    """Scale a signature to mean 0 and variance 1 in each channel; a flat channel becomes 0."""
    channels = values.reshape(-1, SAMPLES)
    centred = channels - channels.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-6)
