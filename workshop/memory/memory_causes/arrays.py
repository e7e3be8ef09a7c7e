"""Arrays that have more bytes than what is in them needs: a wide type, or windows that repeat each other."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from workshop.memory.assignments import object_filled_at
from workshop.memory.memory_findings import MIN_SHARE_OF_ALL, MemoryCause, MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import HeldObject, TensorKind

WIDE = "float64"

WINDOWS_COPIED = MemoryCause(
    "windows-copied",
    "{holder} ({shape}) has windows that overlap: each is the one before, {shift} further on. Keep the series once, "
    "and cut a window where it is asked for, as in __getitem__, or let np.lib.stride_tricks.sliding_window_view show "
    "them, which can only be read.",
    "counted: the bytes that repeat, of what is in memory",
)
FEW_VALUES = MemoryCause(
    "few-values",
    "{holder} ({shape}) is {dtype}, and has at most 256 different values where it was looked at, as pixels have. If "
    "that is so everywhere, keep as uint8, a byte each, what the floats were made from, or the number of each value in "
    "a table, and make the same floats of a batch when it is used.",
    "counted: what a byte for each would take less, of what is in memory",
)
AS_FLOAT32 = "counted: what float32 would take less, of what is in memory"
EXACT_IN_FLOAT32 = MemoryCause(
    WIDE,
    "{holder} ({shape}) is float64, and the values looked at are exact in float32, too. Make it with dtype=np.float32. "
    "What is computed from it in float32 may come out with other rounding.",
    AS_FLOAT32,
)
WIDER_THAN_MODEL = MemoryCause(
    WIDE,
    "{holder} ({shape}) is float64, and neither the batches nor the model are. Make it with dtype=np.float32. What is "
    "computed from it in float32 may come out with other rounding.",
    AS_FLOAT32,
)

COMPUTED = (TensorKind.BATCHES, TensorKind.PARAMETERS, TensorKind.ACTIVATIONS)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what a sample of each large array has shown, as it was when last seen; those of a kind are one finding."""
    arrays = sorted((each for each in measured.record.last_held if each.dtype), key=lambda each: -each.bytes)
    whole = [each for each in arrays if not each.window]
    data = [each for each in whole if each.of_dataset or each.bytes > MIN_SHARE_OF_ALL * measured.host.most_bytes]
    rounds_well = [each for each in data if each.rounds_well] if _computes_in_float32(measured) else []
    wide = [each for each in whole if each.dtype == WIDE and (each.narrower == "float32" or each in rounds_well)]

    def found(kind: MemoryCause, some: Sequence[HeldObject], spare: Callable[[HeldObject], float]) -> MemoryFinding:
        size, largest, whole = round(sum(map(spare, some))), some[0], measured.host.most_bytes
        about = {"shape": " x ".join(map(str, largest.shape)), "shift": largest.shift, "dtype": largest.dtype}
        at, others = object_filled_at(largest), tuple(each.holder for each in some[1:])
        return MemoryFinding(kind, "host", size, whole, at, largest.holder, others=others, figures=about)

    if windows := [each for each in arrays if each.window]:
        yield found(WINDOWS_COPIED, windows, lambda each: each.bytes * (1 - each.shift / each.window))
    if few := [each for each in data if each.narrower == "uint8"]:
        yield found(FEW_VALUES, few, lambda each: each.bytes * (1 - 1 / np.dtype(each.dtype).itemsize))
    if wide:
        yield found(EXACT_IN_FLOAT32 if wide[0].narrower else WIDER_THAN_MODEL, wide, lambda each: each.bytes / 2)


def _computes_in_float32(measured: MeasuredMemory) -> bool:
    """Whether no batch, parameter or activation of the training is of a wider type."""
    rows = [row for each in measured.record.training for row in (*each.at_peak, *each.at_end)]
    dtypes = {each.dtype for each in rows if each.kind in COMPUTED}
    return bool(dtypes) and WIDE not in dtypes
