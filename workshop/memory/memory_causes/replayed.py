"""What need not be there at the peak: in the script, the allocations of a step were replayed without it."""

from collections.abc import Iterator, Sequence

from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import (
    UNKNOWN,
    devices_of,
    has_device,
    innermost,
    lines_of,
    lower_peak,
    memory_of,
    peak_without,
)
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MemorySegment, TensorKind
from workshop.probe.observations import WireFrame

REPLAYED = "measured: the allocations of a recorded step, replayed without it"

GRADIENTS_KEPT = MemoryCause(
    "gradients-kept",
    "The gradients of the step before are still there while the next forward pass runs. If they are cleared after that "
    "anyway, move optimizer.zero_grad(), which sets them to None unless it is told otherwise, before the first forward "
    "pass of the step.",
    REPLAYED,
)
KEPT_INTO_NEXT_STEP = MemoryCause(
    "kept-into-next-step",
    "A variable of the step before still holds this while the next step makes the same again. Delete it (del) after "
    "its last use, or let a function return only what is needed.",
    REPLAYED,
)
UNUSED_GRAPH = MemoryCause(
    "unused-graph",
    "Autograd keeps this for gradients of parameters that no optimizer changes: none has them, or with a learning rate "
    "that is 0 so far. If they are never to be trained, set requires_grad_(False) for them. A norm of all gradients, "
    "as clip_grad_norm_ takes, is then without theirs.",
    REPLAYED,
)
ZERO_GRADIENTS = MemoryCause(
    "zero-gradients",
    "All gradients of what computes this are 0 in each recorded step: its loss is multiplied by 0, or its result by "
    "something that is 0. If that is meant, and nothing else uses what comes out, do not call it as long as it is so. "
    "Its random draws and running statistics are then missing.",
    REPLAYED,
)
GRAPH_OF_GRADIENTS = MemoryCause(
    "graph-of-gradients",
    "backward(create_graph=True) keeps a graph of the gradients, for derivatives of higher order. If no others are "
    "taken of these gradients, call backward() without it.",
    REPLAYED,
)
GRAPHS_AT_ONCE = MemoryCause(
    "graphs-at-once",
    "The losses of several forward passes are added up, and one backward pass goes through all of them, so that the "
    "activations of all are there at once. Call backward() after each forward pass, for its part of the sum with the "
    "same factor: the gradients add up to the same, but for rounding.",
    REPLAYED,
)

IN_STEPS = (GRADIENTS_KEPT, KEPT_INTO_NEXT_STEP, UNUSED_GRAPH, ZERO_GRADIENTS, GRAPH_OF_GRADIENTS, GRAPHS_AT_ONCE)

ALSO_IN_THE_LAST = (UNUSED_GRAPH, ZERO_GRADIENTS)
"""Causes that must hold in the last recorded step, too: a part may be trained later."""

MIN_STEP = 2
"""The number of a step, at least: in the first ones, there are no gradients and no state when they begin."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what is there at the peak of a device in recorded steps, and need not be."""
    record = measured.record
    recorded = {each.step for each in record.training}
    steps = [each for each in record.training if each.step >= MIN_STEP and not each.is_last]
    for device in devices_of(record):
        having = [each for each in steps if has_device(each, device)]
        for kind in IN_STEPS:
            segments = having
            if kind is KEPT_INTO_NEXT_STEP:
                segments = [each for each in having if each.step - 1 in recorded]
            if kind in ALSO_IN_THE_LAST:
                showing = [each for each in having if peak_without(each, kind.name, device)]
                segments = showing if showing and showing[-1] is having[-1] else []
            if finding := replayed(record, device, kind, segments):
                yield finding


def replayed(
    record: MemoryRecord, device: str, kind: MemoryCause, segments: Sequence[MemorySegment]
) -> MemoryFinding | None:
    """Return what the segment with the highest peak has shown; None if that is no lower without it."""
    having = [each for each in segments if has_device(each, device)]
    segment = max(having, key=lambda each: memory_of(each, device).peak_bytes, default=None)
    lower = peak_without(segment, kind.name, device) if segment else None
    if segment is None or lower is None:
        return None
    at = innermost(record.stacks[lower.stack]) if lower.stack >= 0 else UNKNOWN
    holder, whole = _holder_at(record, at), memory_of(segment, device).peak_bytes
    size = lower_peak(record, device, segment, lower.bytes, kind.name)
    at = _line_of_gradients(record) if kind is GRADIENTS_KEPT else at
    return MemoryFinding(kind, device, size, whole, at, holder)


def _line_of_gradients(record: MemoryRecord) -> WireFrame:
    """The line that has computed the gradients."""
    for segment in reversed(record.training):
        lines = [each for each in lines_of(record, segment, segment.at_end) if each.kind == TensorKind.GRADIENTS]
        if lines and lines[0].file:
            return lines[0].function, lines[0].file, lines[0].line
    return UNKNOWN


def _holder_at(record: MemoryRecord, at: WireFrame) -> str:
    """Who held what was allocated in a line, when holders were last looked for; empty if that is not known."""
    _, file, line = at
    if not file or record.last is None:
        return ""
    lines = lines_of(record, record.last, [*record.last.at_end, *record.last.at_peak])
    return next((each.holder for each in lines if (each.file, each.line) == (file, line) and each.holder), "")
