"""What a validation takes and need not: graphs that nobody goes through, and what the model gives for every batch."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from workshop.memory.assignments import filled_at
from workshop.memory.memory_causes.peaks import lowers, replayed
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_lines import MIN_HOLDER_STEPS, devices_of, innermost, memory_of, peak_segment
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.holder_names import GRAPH
from workshop.probe.memory.memory_notes import SegmentName, TensorKind, TensorRow

MIN_SHARE = 0.2
"""What is asked of a validation in the end, such as a score of each sample, may well be kept: it is a smaller share."""

NO_GRAPH = (
    "The validation computes with gradients switched on, so autograd keeps what only a backward pass needs. If "
    "nothing in it asks for gradients, put it into `with torch.no_grad():`."
)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what a validation has when it has most."""
    for device in devices_of(measured.record):
        if finding := replayed(measured, device, "validation-graph", NO_GRAPH):
            yield _at_holder(measured, finding)
        elif finding := _outputs(measured, device):
            yield finding


def _at_holder(measured: MeasuredMemory, finding: MemoryFinding) -> MemoryFinding:
    """The same at the line that keeps the graphs of all batches, if there is one."""
    held = [each for each in measured.record.validation_graphs if each.holder and each.holder_steps >= MIN_HOLDER_STEPS]
    if not held:
        return finding
    graph = max(held, key=lambda each: each.old_operations)
    of_finding = finding.function, finding.file, finding.line or 0
    function, file, line = filled_at(graph.holder, graph.holder_stack, of_finding)
    words = f"{finding.words} {graph.holder} keeps the graphs of all its batches until it is over."
    return replace(finding, holder=graph.holder, function=function, file=file, line=line or None, words=words)


def _outputs(measured: MeasuredMemory, device: str) -> MemoryFinding | None:
    """What a variable has collected of the batches of a validation that has the highest peak."""
    peak = peak_segment(measured.record, device)
    if peak is None or peak.name != SegmentName.VALIDATION:
        return None
    of_holders: defaultdict[str, list[TensorRow]] = defaultdict(list)
    for row in peak.at_peak:
        is_output = row.device == device and row.kind in (TensorKind.OTHERS, TensorKind.ACTIVATIONS)
        collects = row.holder_steps >= MIN_HOLDER_STEPS and not row.holder.startswith(GRAPH)
        if is_output and collects and row.first_step == peak.step:
            of_holders[row.holder].append(row)
    if not of_holders:
        return None
    holder, rows = max(of_holders.items(), key=lambda each: sum(row.bytes for row in each[1]))
    size, whole = sum(each.bytes for each in rows), memory_of(peak, device).peak_bytes
    if size < MIN_SHARE * whole:
        return None
    made = innermost(measured.record.stack_of(max(rows, key=lambda each: each.bytes)))
    function, file, line = filled_at(holder, rows[0].holder_stack, made)
    gain = lowers(measured, device, peak, size)
    return MemoryFinding(
        cause="validation-outputs",
        place=device,
        file=file,
        line=line or None,
        function=function,
        holder=holder,
        gain_bytes=gain,
        share=gain / max(whole, 1),
        measured=True,
        bytes_a_step=0.0,
        words=f"{holder} collects what the model gives for all batches of the validation, {size / 2**20:.1f} MiB of "
        "those that were followed. Keep what is asked of it in the end, such as the labels, or add up the counts of "
        "each batch.",
        basis="counted: what there is of it at the peak",
    )
