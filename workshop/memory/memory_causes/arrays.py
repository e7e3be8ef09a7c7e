"""Arrays that have more bytes than what is in them needs: a wide type, or windows that repeat each other."""

from collections.abc import Iterator

import numpy as np

from workshop.memory.assignments import object_filled_at
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import HostObject, TensorKind
from workshop.terminal import some_of

WIDE = "float64"
BYTE = "uint8"
LARGE = 0.1
"""An array that no dataset has is taken to be one of data if it is more than this share of all memory."""

COMPUTED = (TensorKind.BATCHES, TensorKind.PARAMETERS, TensorKind.ACTIVATIONS)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what a sample of each large array has shown, as it was when last seen."""
    arrays = [each for each in measured.record.last_host_objects if each.dtype]
    last = sorted(arrays, key=lambda each: -each.bytes)
    if windows := [each for each in last if each.window]:
        yield _windows(measured, windows)
    most = measured.host.most.together if measured.host.most else 0
    data = [each for each in last if not each.window and (each.of_dataset or each.bytes > LARGE * most)]
    if few := [each for each in data if each.narrower == BYTE]:
        yield _few_values(measured, few)
    computes_in_float32 = _computes_in_float32(measured)
    wide = [
        each
        for each in last
        if each.dtype == WIDE
        and not each.window
        and (each.narrower == "float32" or (computes_in_float32 and each.rounds_well and each in data))
    ]
    if wide:
        yield _wide(measured, wide)


def _computes_in_float32(measured: MeasuredMemory) -> bool:
    """Whether no batch, parameter or activation of the training is of a wider type."""
    rows = [row for each in measured.record.training for row in (*each.at_peak, *each.at_end)]
    dtypes = {each.dtype for each in rows if each.kind in COMPUTED}
    return bool(dtypes) and WIDE not in dtypes


def _windows(measured: MeasuredMemory, arrays: list[HostObject]) -> MemoryFinding:
    """All arrays of windows, named by the largest."""
    words = (
        f"{_named(arrays[0])} has windows that overlap: each is the one before, {arrays[0].shift} further on. "
        "Keep the series once, and cut a window where it is asked for, as in __getitem__, or let "
        f"np.lib.stride_tricks.sliding_window_view show them, which can only be read.{_so_are(arrays)}"
    )
    size = sum(each.bytes * (1 - each.shift / each.window) for each in arrays)
    return _finding(measured, arrays[0], "windows-copied", round(size), words, "the bytes that repeat")


def _few_values(measured: MeasuredMemory, arrays: list[HostObject]) -> MemoryFinding:
    """All arrays of floats with few different values, named by the largest."""
    words = (
        f"{_named(arrays[0])} is {arrays[0].dtype}, and has at most 256 different values where it was looked at, as "
        "pixels have. If that is so everywhere, keep as uint8, a byte each, what the floats were made from, or the "
        f"number of each value in a table, and make the same floats of a batch when it is used.{_so_are(arrays)}"
    )
    size = sum(each.bytes * (1 - 1 / np.dtype(each.dtype).itemsize) for each in arrays)
    return _finding(measured, arrays[0], "few-values", round(size), words, "what a byte for each would take less")


def _wide(measured: MeasuredMemory, arrays: list[HostObject]) -> MemoryFinding:
    """All arrays that could be narrower, named by the largest."""
    array = arrays[0]
    exact = "the values looked at are exact in float32, too"
    why = exact if array.narrower else "neither the batches nor the model are"
    words = f"{_named(array)} is float64, and {why}. Make it with dtype=np.float32.{_so_are(arrays)} "
    words += "What is computed from it in float32 may come out with other rounding."
    size = sum(each.bytes for each in arrays) // 2
    return _finding(measured, array, WIDE, size, words, "what float32 would take less")


def _so_are(arrays: list[HostObject]) -> str:
    others = some_of(each.holder for each in arrays[1:])
    return f" The same goes for {others}." if others else ""


def _named(array: HostObject) -> str:
    return f"{array.holder} ({' x '.join(map(str, array.shape))})"


def _finding(
    measured: MeasuredMemory, array: HostObject, cause: str, size: int, words: str, basis: str
) -> MemoryFinding:
    function, file, line = object_filled_at(array)
    most = measured.host.most
    return MemoryFinding(
        cause=cause,
        place="host",
        file=file,
        line=line or None,
        function=function,
        holder=array.holder,
        gain_bytes=size,
        share=size / max(most.together if most else 0, 1),
        measured=True,
        bytes_a_step=0.0,
        words=words,
        basis=f"counted: {basis}, of what is in memory",
    )
