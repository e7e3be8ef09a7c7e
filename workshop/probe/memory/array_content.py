"""Whether an array has more bytes than what is in it needs, as far as a sample of it shows."""

import sys
from random import Random
from typing import Any, NamedTuple

from workshop.probe.memory.process_memory import in_memory

PLACES, STRETCH = 1024, 64
"""So many places in an array are looked at, and so many values there."""

MIN_OTHERS = 100
"""So many of the values are not 0, at least: what is not filled yet says nothing."""

MIN_ROWS, MAX_SHIFT = 256, 16
MOST = 0.9


def loaded_numpy() -> Any:
    """Return NumPy if the script has loaded it, else None: then it has no arrays."""
    return sys.modules.get("numpy")


class ArrayContent(NamedTuple):
    """What a sample of an array shows. Only what is in memory is read: reading the rest would take memory."""

    resident: float
    """The share that is in memory: of np.zeros(), what was written."""
    narrower: str
    """Of float64, a type that holds all these values: "uint8" for whole numbers up to 255, or "float32"; or empty."""
    window: int
    """The length of its rows, if each is the one before but for `shift` entries; 0 if they are not."""
    shift: int


def content_of(array: Any) -> ArrayContent:
    """Look at a contiguous array of NumPy."""
    flat = array.reshape(-1, order="C" if array.flags.c_contiguous else "F")
    dice = Random(0)
    first = [dice.randrange(max(len(flat) - STRETCH, 1)) for _ in range(PLACES)]
    address = address_of(array)
    are_there = in_memory([address + each * array.itemsize for each in first])
    stretches = [flat[each : each + STRETCH] for each, is_there in zip(first, are_there, strict=True) if is_there]
    resident = len(stretches) / PLACES
    narrower = _narrower(loaded_numpy().concatenate(stretches)) if stretches else ""
    window, shift = _repeats(array) if resident > MOST else (0, 0)
    return ArrayContent(resident, narrower, window, shift)


def address_of(array: Any) -> int:
    """Return where the first value of an array is."""
    return int(array.__array_interface__["data"][0])


def _narrower(values: Any) -> str:
    np = loaded_numpy()
    if values.dtype != np.float64 or np.count_nonzero(values) < min(MIN_OTHERS, len(values) // 2):
        return ""
    with np.errstate(all="ignore"):
        return next((each for each in ("uint8", "float32") if (values.astype(each) == values).all()), "")


def _repeats(array: Any) -> tuple[int, int]:
    """The length of the rows, of shape (window, ...) or (..., window), and by how much each is shifted."""
    if array.ndim < 2 or len(array) < MIN_ROWS or not array.flags.c_contiguous:
        return 0, 0
    np = loaded_numpy()
    dice = Random(0)
    first = [dice.randrange(len(array) - 1) for _ in range(STRETCH)]
    rows, following = array[first], array[[each + 1 for each in first]]
    for axis in {1, array.ndim - 1}:
        length = array.shape[axis]
        for shift in range(1, min(MAX_SHIFT, length // 2) + 1):
            end = np.take(rows, range(shift, length), axis)
            if np.array_equal(end, np.take(following, range(length - shift), axis)) and _varies(end):
                return length, shift
    return 0, 0


def _varies(rows: Any) -> bool:
    """Whether most rows are not all the same value, which would be found anywhere."""
    flat = rows.reshape(len(rows), -1)
    return bool((flat.min(1) != flat.max(1)).mean() > 0.5)
