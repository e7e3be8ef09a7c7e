"""Tensors that need not be there at the peak: of a step, of a validation, and what checkpoints would compute again."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from workshop.memory.assignments import filled_at
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import (
    MIN_HOLDER_STEPS,
    UNKNOWN,
    devices_of,
    has_device,
    innermost,
    lines_of,
    lower_peak,
    made_in,
    memory_of,
    peak_segment,
    peak_without,
)
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import FIRST_STEPS, MemorySegment, SegmentName, TensorKind, TensorRow
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
NEVER_GONE_THROUGH = MemoryCause(
    "unused-graph",
    "Autograd keeps what made {holder}, and no backward pass of the step goes through it. If none of a later step "
    "does, compute it under torch.no_grad().",
    "counted: what its graph keeps at the peak",
)
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
CHECKPOINTING = MemoryCause(
    "checkpointing",
    "Tried on a copy of {about}: with torch.utils.checkpoint around each of its blocks, activations are computed again "
    "instead of kept. A forward and backward pass then took {slower:.2f} times as long. A batch norm in a block counts "
    "each batch twice.",
    "measured: the peak of a forward and backward pass of a copy, before and after",
    is_option=True,
)

IN_STEPS = (GRADIENTS_KEPT, KEPT_INTO_NEXT_STEP, UNUSED_GRAPH, ZERO_GRADIENTS, GRAPH_OF_GRADIENTS, GRAPHS_AT_ONCE)

ALSO_IN_THE_LAST = (UNUSED_GRAPH, ZERO_GRADIENTS)
"""Causes that must hold in the last recorded step, too: a part may be trained later."""

MIN_SHARE_OF_OUTPUTS = 0.2
"""Share of the peak, at least: what is asked of a validation in the end, as a score of each sample, may be kept."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what is there at the peak of a device and need not be."""
    record = measured.record
    validations = [each for each in record.segments if each.name == SegmentName.VALIDATION]
    for device in devices_of(record):
        yield from _in_steps(record, device)
        if finding := _replayed(record, device, VALIDATION_GRAPH, validations):
            yield _at_holder(record, finding)
        else:
            yield from _outputs(record, device)
    yield from _never_gone_through(record)
    yield from _checkpointing(record)


# Steps


def _in_steps(record: MemoryRecord, device: str) -> Iterator[MemoryFinding]:
    """Yield what the replays of recorded steps have shown."""
    recorded = {each.step for each in record.training}
    steps = [each for each in record.training if each.step >= FIRST_STEPS and not each.is_last]
    having = [each for each in steps if has_device(each, device)]
    for kind in IN_STEPS:
        segments = having
        if kind is KEPT_INTO_NEXT_STEP:
            segments = [each for each in having if each.step - 1 in recorded]
        if kind in ALSO_IN_THE_LAST:
            showing = [each for each in having if peak_without(each, kind.name, device)]
            segments = showing if showing[-1:] == having[-1:] else []
        if finding := _replayed(record, device, kind, segments):
            yield finding


def _replayed(
    record: MemoryRecord, device: str, kind: MemoryCause, segments: Sequence[MemorySegment]
) -> MemoryFinding | None:
    """What the segment with the highest peak has shown; None if that is no lower without it."""
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


def _never_gone_through(record: MemoryRecord) -> Iterator[MemoryFinding]:
    """Yield what graphs of the last recorded step keep though no backward pass of any step has come to it.

    What comes out of them is detached, as a teacher's answer.
    """
    last = record.last
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
            at = filled_at(holder, rows[0].holder_stack, made_in(record, rows))
            size = lower_peak(record, device, last, sum(each.bytes for each in rows))
            yield MemoryFinding(NEVER_GONE_THROUGH, device, size, memory_of(last, device).peak_bytes, at, holder)


# Validations


def _at_holder(record: MemoryRecord, finding: MemoryFinding) -> MemoryFinding:
    """The same at the line that keeps the graphs of all batches, if there is one."""
    held = [each for each in record.validation_graphs if each.holder and each.holder_steps >= MIN_HOLDER_STEPS]
    if not held:
        return finding
    graph = max(held, key=lambda each: each.old_operations)
    at = filled_at(graph.holder, graph.holder_stack, finding.at)
    return replace(finding, kind=GRAPHS_HELD, holder=graph.holder, at=at)


def _outputs(record: MemoryRecord, device: str) -> Iterator[MemoryFinding]:
    """Yield what a variable has collected of the batches of a validation that has the highest peak."""
    peak = peak_segment(record, device)
    of_holders: defaultdict[str, list[TensorRow]] = defaultdict(list)
    for row in peak.at_peak if peak and peak.name == SegmentName.VALIDATION else ():
        is_output = row.device == device and row.kind in (TensorKind.OTHERS, TensorKind.ACTIVATIONS)
        collects = row.holder_steps >= MIN_HOLDER_STEPS and not row.by_graph
        if peak and is_output and collects and row.first_step == peak.step:
            of_holders[row.holder].append(row)
    if peak is None or not of_holders:
        return
    holder, rows = max(of_holders.items(), key=lambda each: sum(row.bytes for row in each[1]))
    size, whole = sum(each.bytes for each in rows), memory_of(peak, device).peak_bytes
    if size >= MIN_SHARE_OF_OUTPUTS * whole:
        at, about = filled_at(holder, rows[0].holder_stack, made_in(record, rows)), {"held_mib": size / 2**20}
        gain = lower_peak(record, device, peak, size)
        yield MemoryFinding(VALIDATION_OUTPUTS, device, gain, whole, at, holder, figures=about)


# Checkpoints around the blocks of the model, as tried on a copy of it


def _checkpointing(record: MemoryRecord) -> Iterator[MemoryFinding]:
    """Yield what was tried, if it needed less."""
    trial = record.checkpoints
    if trial and trial.changed_bytes < trial.as_it_is_bytes and trial.device in devices_of(record):
        steps = [each for each in record.training if has_device(each, trial.device)]
        peak = max((memory_of(each, trial.device).peak_bytes for each in steps), default=0)
        about = {"about": trial.about, "slower": trial.changed_s / max(trial.as_it_is_s, 1e-9)}
        size = trial.as_it_is_bytes - trial.changed_bytes
        yield MemoryFinding(CHECKPOINTING, trial.device, size, peak, figures=about)
