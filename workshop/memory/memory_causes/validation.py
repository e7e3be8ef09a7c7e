"""What a validation takes and need not: graphs that nobody goes through, and what the model gives for every batch."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from workshop.memory.assignments import filled_at
from workshop.memory.memory_causes.replayed import REPLAYED, replayed
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import MIN_HOLDER_STEPS, devices_of, innermost, lower_peak, memory_of, peak_segment
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import SegmentName, TensorKind, TensorRow

NO_GRAPH = (
    "The validation computes with gradients switched on, so autograd keeps what only a backward pass needs. If "
    "nothing in it asks for gradients, put it into `with torch.no_grad():`."
)
VALIDATION_GRAPH = MemoryCause("validation-graph", NO_GRAPH, REPLAYED)
GRAPHS_HELD = MemoryCause(
    "validation-graph", f"{NO_GRAPH} {{holder}} keeps the graphs of all its batches until it is over.", REPLAYED
)
VALIDATION_OUTPUTS = MemoryCause(
    "validation-outputs",
    "{holder} collects what the model gives for all batches of the validation, {held_mib:.1f} MiB of those that were "
    "followed. Keep what is asked of it in the end, such as the labels, or add up the counts of each batch.",
    "counted: what there is of it at the peak",
)

MIN_SHARE_OF_OUTPUTS = 0.2
"""Share of the peak, at least: what is asked of a validation in the end, as a score of each sample, may be kept."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what a validation has when it has most."""
    record = measured.record
    for device in devices_of(record):
        validations = [each for each in record.segments if each.name == SegmentName.VALIDATION]
        if finding := replayed(record, device, VALIDATION_GRAPH, validations):
            yield _at_holder(record, finding)
        elif finding := _outputs(record, device):
            yield finding


def _at_holder(record: MemoryRecord, finding: MemoryFinding) -> MemoryFinding:
    """The same at the line that keeps the graphs of all batches, if there is one."""
    held = [each for each in record.validation_graphs if each.holder and each.holder_steps >= MIN_HOLDER_STEPS]
    if not held:
        return finding
    graph = max(held, key=lambda each: each.old_operations)
    at = filled_at(graph.holder, graph.holder_stack, finding.at)
    return replace(finding, kind=GRAPHS_HELD, holder=graph.holder, at=at)


def _outputs(record: MemoryRecord, device: str) -> MemoryFinding | None:
    """What a variable has collected of the batches of a validation that has the highest peak."""
    peak = peak_segment(record, device)
    if peak is None or peak.name != SegmentName.VALIDATION:
        return None
    of_holders: defaultdict[str, list[TensorRow]] = defaultdict(list)
    for row in peak.at_peak:
        is_output = row.device == device and row.kind in (TensorKind.OTHERS, TensorKind.ACTIVATIONS)
        collects = row.holder_steps >= MIN_HOLDER_STEPS and not row.by_graph
        if is_output and collects and row.first_step == peak.step:
            of_holders[row.holder].append(row)
    if not of_holders:
        return None
    holder, rows = max(of_holders.items(), key=lambda each: sum(row.bytes for row in each[1]))
    size, whole = sum(each.bytes for each in rows), memory_of(peak, device).peak_bytes
    if size < MIN_SHARE_OF_OUTPUTS * whole:
        return None
    made = innermost(record.stack_of(max(rows, key=lambda each: each.bytes)))
    at, gain = filled_at(holder, rows[0].holder_stack, made), lower_peak(record, device, peak, size)
    return MemoryFinding(VALIDATION_OUTPUTS, device, gain, whole, at, holder, figures={"held_mib": size / 2**20})
