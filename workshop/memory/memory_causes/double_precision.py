"""Tensors of double precision, and where they come from: of the model if it has it, too."""

from collections.abc import Iterator

from workshop.memory.assignments import returned_at
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import devices_of, lines_of, memory_of, peak_segment
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MemorySegment, TensorKind, TensorRow

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


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield the tensors of double precision at the peak of each device."""
    for device in devices_of(measured.record):
        if peak := peak_segment(measured.record, device):
            yield from _at_peak(measured, device, peak)


def _at_peak(measured: MeasuredMemory, device: str, peak: MemorySegment) -> Iterator[MemoryFinding]:
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
