"""Numbers that have more bytes than what is in them needs: of a wide type, or windows that repeat each other."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from workshop.memory.assignments import object_filled_at, returned_at
from workshop.memory.memory_findings import MIN_SHARE_OF_ALL, MemoryCause, MemoryFinding
from workshop.memory.memory_lines import devices_of, lines_of, memory_of, peak_segment
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import HeldObject, MemorySegment, TensorKind, TensorRow

WIDE = "float64"

HALF = "counted: half of what float64 takes at the peak"
WIDE_MODEL = MemoryCause(
    WIDE,
    "The model and its data are float64, often because numpy makes no other by default. If they do not need that "
    "precision, convert the data where they are made, .astype(np.float32), and take away what makes the model float64, "
    "such as .double(). All results then change by rounding.",
    HALF,
)
WIDE_TENSORS = MemoryCause(
    WIDE,
    "The model computes in float32, and these tensors are float64, often because of numpy, which makes no other by "
    "default. If they do not need that precision, convert them where they are made: .astype(np.float32), or "
    "dtype=torch.float32. What is computed from them then changes by rounding.",
    HALF,
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

COMPUTED = (TensorKind.BATCHES, TensorKind.PARAMETERS, TensorKind.ACTIVATIONS)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield the tensors of double precision at the peak of each device, then arrays."""
    for device in devices_of(measured.record):
        if peak := peak_segment(measured.record, device):
            yield from _tensors(measured, device, peak)
    yield from _arrays(measured)


def _tensors(measured: MeasuredMemory, device: str, peak: MemorySegment) -> Iterator[MemoryFinding]:
    """Yield those of double precision together, and where they come from: of the model if it has it, too."""
    rows = [each for each in peak.at_peak if each.device == device]
    parameters = [each for each in rows if each.kind == TensorKind.PARAMETERS]
    is_model = bool(parameters) and max(parameters, key=lambda each: each.bytes).dtype == WIDE
    wide = lines_of(measured.record, peak, [each for each in rows if _is_wide(each, is_model)])
    if not parameters or not any(WIDE in each.dtypes for each in wide):
        return
    first = next((each for each in wide if each.kind == TensorKind.PARAMETERS and is_model), wide[0])
    items = measured.record.wide_items
    is_of_items = bool(items) and not is_model and any(each.kind == TensorKind.BATCHES for each in wide)
    at = returned_at(items[0].way, items[0].frame) if is_of_items else (first.function, first.file, first.line)
    size, whole = round(sum(each.bytes for each in wide) / 2), memory_of(peak, device).peak_bytes
    yield MemoryFinding(WIDE_MODEL if is_model else WIDE_TENSORS, device, size, whole, at, first.holder)


def _is_wide(row: TensorRow, is_model: bool) -> bool:
    """Whether tensors are of double precision; what is inside of operators is, if the model is."""
    return row.dtype == WIDE or (is_model and row.kind == TensorKind.SCRATCH)


def _arrays(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
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
