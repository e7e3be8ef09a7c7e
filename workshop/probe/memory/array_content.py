"""Whether an array has more bytes than what is in it needs, as far as a sample of it shows."""

import sys
from random import Random
from typing import Any, NamedTuple

from workshop.probe.memory.process_memory import in_memory

PLACES, STRETCH = 1024, 64
"""Places in an array that are looked at, and values at each."""

MIN_OTHERS = 100
"""Values that are not 0, at least: what is not filled yet says nothing."""

MAX_ROUNDING = 1e-5
"""Share of their spread, at most, by which float32 may change values to round them well."""

MIN_ROWS, MAX_SHIFT, MAX_ROW = 256, 16, 1 << 16
"""Rows, at least, entries that each is shifted by, and bytes of one, at most, where windows are looked for."""

MIN_SHARE = 0.9
"""Share of an array, at least, that is in memory where windows are looked for, and of its rows that differ."""


def loaded_numpy() -> Any:
    """Return NumPy if the script has loaded it, else None: then it has no arrays."""
    return sys.modules.get("numpy")


class ArrayContent(NamedTuple):
    """What a sample of an array shows. Only what is in memory is read: reading the rest would take memory."""

    resident: float
    """The share that is in memory: of np.zeros(), what was written."""
    narrower: str
    """Of floats, a type that can tell these values apart: "uint8" if they are 256 or fewer, or "float32"; or empty."""
    rounds_well: bool
    """Whether float32 would change these values by very little, compared with their spread."""
    window: int
    """The length of its rows, if each is the one before but for `shift` entries; 0 if they are not."""
    shift: int


def content_of(array: Any) -> ArrayContent:
    """Look at a contiguous array of NumPy."""
    flat = array.reshape(-1, order="C" if array.flags.c_contiguous else "F")
    first = places_in(len(flat))
    address = address_of(array)
    are_there = in_memory([address + each * array.itemsize for each in first])
    stretches = [flat[each : each + STRETCH] for each, is_there in zip(first, are_there, strict=True) if is_there]
    resident = len(stretches) / PLACES
    narrower, rounds_well = narrower_type(loaded_numpy().concatenate(stretches)) if stretches else ("", False)
    window, shift = repeats(array) if resident > MIN_SHARE and array.flags.c_contiguous else (0, 0)
    return ArrayContent(resident, narrower, rounds_well, window, shift)


def places_in(length: int) -> list[int]:
    """Return where in so many values a stretch of them is looked at."""
    dice = Random(0)
    return [dice.randrange(max(length - STRETCH, 1)) for _ in range(PLACES)]


def address_of(array: Any) -> int:
    """Return where the first value of an array is."""
    return int(array.__array_interface__["data"][0])


def narrower_type(values: Any) -> tuple[str, bool]:
    """Return the type that can tell these values apart, and whether float32 would change them by little."""
    np = loaded_numpy()
    if values.dtype.kind != "f" or np.count_nonzero(values) < min(MIN_OTHERS, len(values) // 2):
        return "", False
    if len(np.unique(values)) <= 256:  # they can be told apart in a byte
        return "uint8", False
    if values.dtype != np.float64:
        return "", False
    with np.errstate(all="ignore"):
        rounded = values.astype("float32")
        is_exact = bool((rounded == values).all())
        return "float32" * is_exact, bool(abs(rounded - values).max() <= MAX_ROUNDING * values.std())


def repeats(array: Any) -> tuple[int, int]:
    """Return the length of an array's rows, or a tensor's, and by how much each is shifted against the one before.

    Rows have the shape (window, ...) or (..., window). Both numbers are 0 if they do not repeat each other.
    """
    if array.ndim < 2 or len(array) < MIN_ROWS or array[0].nbytes > MAX_ROW:
        return 0, 0
    np = loaded_numpy()
    dice = Random(0)
    first = [dice.randrange(len(array) - 1) for _ in range(STRETCH)]
    rows, following = (np.asarray(array[places]) for places in (first, [each + 1 for each in first]))  # copies
    if not _varies(rows) or (rows == following).reshape(STRETCH, -1).all(1).mean() > 1 - MIN_SHARE:
        return 0, 0
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
