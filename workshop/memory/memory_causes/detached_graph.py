"""Graphs of a step that no backward pass goes through: what comes out is detached, as a teacher's answer."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import filled_at
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import has_device, innermost, lower_peak, memory_of
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import SegmentName, TensorKind, TensorRow

NEVER_GONE_THROUGH = MemoryCause(
    "unused-graph",
    "Autograd keeps what made {holder}, and no backward pass of the step goes through it. If none of a later step "
    "does, compute it under torch.no_grad().",
    "counted: what its graph keeps at the peak",
)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what graphs of the last recorded step keep though no backward pass of any step has come to it."""
    record, last = measured.record, measured.record.last
    if last is None or last.name != SegmentName.TRAINING:
        return
    others = (row for each in record.segments for row in each.at_peak)
    gone_through = {each.stack for each in others if each.kind == TensorKind.ACTIVATIONS and each.stack >= 0}
    of_graphs: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
    for row in last.at_peak:  # what a backward pass has gone through are activations
        if row.by_graph and row.kind == TensorKind.OTHERS and row.first_step == last.step:
            of_graphs[row.device, row.holder].append(row)
    for (device, holder), rows in of_graphs.items():
        if has_device(last, device) and not any(each.stack in gone_through for each in rows):
            made = innermost(record.stack_of(max(rows, key=lambda each: each.bytes)))
            at = filled_at(holder, rows[0].holder_stack, made)
            size = lower_peak(record, device, last, sum(each.bytes for each in rows))
            yield MemoryFinding(NEVER_GONE_THROUGH, device, size, memory_of(last, device).peak_bytes, at, holder)
