"""What there need not be when there is most: gradients of the last step, a validation's graph, wider types."""

from collections import defaultdict
from collections.abc import Iterator

from workshop.memory.assignments import filled_at, made_at, returned_at
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_lines import MIN_HOLDER_STEPS, devices_of, innermost, lines_of, memory_of, peak_segment
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.holder_names import GRAPH
from workshop.probe.memory.memory_notes import (
    MAX_VALIDATIONS,
    MemorySegment,
    MemoryTrial,
    SegmentName,
    TensorKind,
    TensorRow,
)

REPLAYED = "measured: the allocations of a recorded step, replayed without it"

WIDE = "float64"
HALF_AS_WIDE = 0.5

MANY_TIMES = 4
"""Views that are so many times smaller than what they keep."""

MIN_STEP = 2
"""The first steps are like no others: there is no gradient, and no state, when they begin."""

STILL_SO = ("unused-graph", "zero-gradients")
"""What is known only after some steps, or was so for a while: it must be so in the last recorded step."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what is there at the peak of each device and need not be."""
    for device in devices_of(measured.record):
        if (peak := peak_segment(measured.record, device)) is None:
            continue
        for name, words in (
            (
                "gradients-kept",
                "The gradients of the step before are still there while the next forward pass runs. If they are "
                "cleared after that anyway, move optimizer.zero_grad(), which sets them to None unless it is told "
                "otherwise, before the first forward pass of the step.",
            ),
            (
                "kept-into-next-step",
                "A variable of the step before still holds this while the next step makes the same again. Delete it "
                "(del) after its last use, or let a function return only what is needed.",
            ),
            (
                "unused-graph",
                "Autograd keeps this for gradients of parameters that no optimizer changes: none has them, or with a "
                "learning rate that is 0 so far. If they are never to be trained, set requires_grad_(False) for them. "
                "A norm of all gradients, as clip_grad_norm_ takes, is then without theirs.",
            ),
            (
                "zero-gradients",
                "All gradients of what computes this are 0 in each recorded step: its loss is multiplied by 0, or its "
                "result by something that is 0. If that is meant, and nothing else uses what comes out, do not call "
                "it as long as it is so. Its random draws and running statistics are then missing.",
            ),
            (
                "graph-of-gradients",
                "backward(create_graph=True) keeps a graph of the gradients, for derivatives of higher order. If no "
                "others are taken of these gradients, call backward() without it.",
            ),
            (
                "graphs-at-once",
                "The losses of several forward passes are added up, and one backward pass goes through all of them, so "
                "that the activations of all are there at once. Call backward() after each forward pass, for its "
                "part of the sum with the same factor: the gradients add up to the same, but for rounding.",
            ),
        ):
            if finding := replayed(measured, device, name, words):
                yield finding
        yield from _never_gone_through(measured, device)
        yield from _wide(measured, device, peak)
        yield from _views(measured, device, peak)
        yield from _tried(measured, device)


def replayed(measured: MeasuredMemory, device: str, name: str, words: str) -> MemoryFinding | None:
    """Return what a replay of steps, or of validations, without some tensors has shown, at the highest peak of all."""
    segments = [each for each in measured.record.training if each.step >= MIN_STEP and not each.is_last]
    if name == "validation-graph":
        segments = [each for each in measured.record.segments if each.name == SegmentName.VALIDATION]
    if name == "kept-into-next-step":
        recorded = {each.step for each in measured.record.training}
        segments = [each for each in segments if each.step - 1 in recorded]
    having = [each for each in segments if any(of.device == device for of in each.devices)]
    if having and name in STILL_SO:
        is_still_so = _freed(having[-1], name, device) is not None
        having = [each for each in having if is_still_so and _freed(each, name, device)]
    if not having:
        return None
    highest = max(having, key=lambda each: memory_of(each, device).peak_bytes)
    return _finding(measured, device, name, words, highest)


def _finding(
    measured: MeasuredMemory, device: str, name: str, words: str, segment: MemorySegment
) -> MemoryFinding | None:
    if (saved := _freed(segment, name, device)) is None:
        return None
    size, stack = lowers(measured, device, segment, saved[0], name), saved[1]
    function, file, line = innermost(measured.record.stacks[stack]) if stack >= 0 else ("", "", 0)
    held = _holder_at(measured, file, line)
    if name == "gradients-kept":
        function, file, line = _line_of_gradients(measured)
    return MemoryFinding(
        cause=name,
        place=device,
        file=file,
        line=line or None,
        function=function,
        holder=held,
        gain_bytes=size,
        share=size / max(memory_of(segment, device).peak_bytes, 1),
        measured=True,
        bytes_a_step=0.0,
        words=words,
        basis=REPLAYED,
    )


def _freed(segment: MemorySegment, name: str, device: str) -> tuple[int, int] | None:
    """How much lower the peak of a segment is without it, and the stack on which to change that; None if it is not."""
    return next(((size, stack) for of, size, stack in segment.freed if of == f"{name} {device}"), None)


def lowers(measured: MeasuredMemory, device: str, segment: MemorySegment, saved: int, cause: str = "") -> int:
    """Return by how much the peak of the run would be lower: segments of another name may have a higher one.

    They are taken as they would be without that `cause`. Steps after the last validation that was recorded count only
    if there was none after it: what that has left is not known for what it is.
    """
    segments = measured.record.segments
    same = [each.step for each in segments if each.name == segment.name]
    all_recorded = segment.name != SegmentName.VALIDATION or len(same) < MAX_VALIDATIONS
    others = [each for each in segments if each.name != segment.name and (all_recorded or each.step <= max(same))]
    peaks = [
        memory_of(each, device).peak_bytes - (freed[0] if (freed := _freed(each, cause, device)) else 0)
        for each in others
        if any(of.device == device for of in each.devices)
    ]
    return max(0, min(saved, memory_of(segment, device).peak_bytes - max(peaks, default=0)))


def _line_of_gradients(measured: MeasuredMemory) -> tuple[str, str, int]:
    """The line that has computed the gradients."""
    for segment in reversed(measured.record.training):
        lines = [
            each for each in lines_of(measured.record, segment, segment.at_end) if each.kind == TensorKind.GRADIENTS
        ]
        if lines and lines[0].file:
            return lines[0].function, lines[0].file, lines[0].line
    return "", "", 0


def _holder_at(measured: MeasuredMemory, file: str, line: int) -> str:
    last = measured.record.last
    if not file or last is None:
        return ""
    lines = lines_of(measured.record, last, [*last.at_end, *last.at_peak])
    return next((each.holder for each in lines if (each.file, each.line) == (file, line) and each.holder), "")


def _never_gone_through(measured: MeasuredMemory, device: str) -> Iterator[MemoryFinding]:
    """What a graph of the last recorded step keeps though no backward pass of the step has come to it."""
    last = measured.record.last
    if last is None or last.name != SegmentName.TRAINING or not any(of.device == device for of in last.devices):
        return
    of_holders: defaultdict[str, list[TensorRow]] = defaultdict(list)
    for row in last.at_peak:  # what a backward pass has gone through are activations
        if row.device == device and row.kind == TensorKind.OTHERS and row.first_step == last.step:
            of_holders[row.holder].append(row)
    others = (row for each in measured.record.segments for row in each.at_peak)
    gone_through = {each.stack for each in others if each.kind == TensorKind.ACTIVATIONS and each.stack >= 0}
    for holder, rows in of_holders.items():
        if holder.startswith(GRAPH) and not any(each.stack in gone_through for each in rows):
            size = lowers(measured, device, last, sum(each.bytes for each in rows))
            made = innermost(measured.record.stack_of(max(rows, key=lambda each: each.bytes)))
            function, file, line = filled_at(name := holder.removeprefix(GRAPH), rows[0].holder_stack, made)
            yield MemoryFinding(
                cause="unused-graph",
                place=device,
                file=file,
                line=line or None,
                function=function,
                holder=name,
                gain_bytes=size,
                share=size / max(memory_of(last, device).peak_bytes, 1),
                measured=True,
                bytes_a_step=0.0,
                words=f"Autograd keeps what made {name}, and no backward pass of the step goes through it. If none of "
                "a later step does, compute it under torch.no_grad().",
                basis="counted: what its graph keeps at the peak",
            )


def _wide(measured: MeasuredMemory, device: str, peak: MemorySegment) -> Iterator[MemoryFinding]:
    """Tensors of double precision, and where they come from: of the model if it has it, too."""
    rows = [each for each in peak.at_peak if each.device == device]
    parameters = [each for each in rows if each.kind == TensorKind.PARAMETERS]
    is_model = bool(parameters) and max(parameters, key=lambda each: each.bytes).dtype == WIDE
    wide = lines_of(measured.record, peak, [each for each in rows if _is_wide(each, is_model)])
    if not parameters or not any(WIDE in each.dtypes for each in wide):
        return
    first = next((each for each in wide if each.kind == TensorKind.PARAMETERS and is_model), wide[0])
    function, file, line = first.function, first.file, first.line
    items = measured.record.wide_items
    if items and not is_model and any(each.kind == TensorKind.BATCHES for each in wide):
        function, file, line = returned_at(items[0].way, items[0].frame)
    size = sum(each.bytes for each in wide)
    yield MemoryFinding(
        cause="float64",
        place=device,
        file=file,
        line=line or None,
        function=function,
        holder=first.holder,
        gain_bytes=round(size * HALF_AS_WIDE),
        share=size * HALF_AS_WIDE / max(memory_of(peak, device).peak_bytes, 1),
        measured=True,
        bytes_a_step=0.0,
        words="The model and its data are float64, often because numpy makes no other by default. If they do not need "
        "that precision, convert the data where they are made, .astype(np.float32), and take away what makes the model "
        "float64, such as .double(). All results then change by rounding."
        if is_model
        else "The model computes in float32, and these tensors are float64, often because of numpy, which makes no "
        "other by default. If they do not need that precision, convert them where they are made: "
        ".astype(np.float32), or dtype=torch.float32. What is computed from them then changes by rounding.",
        basis="counted: half of what float64 takes at the peak",
    )


def _is_wide(row: TensorRow, is_model: bool) -> bool:
    """Whether tensors are of double precision; what is inside of operators is, if the model is."""
    return row.dtype == WIDE or (is_model and row.kind == TensorKind.SCRATCH)


def _views(measured: MeasuredMemory, device: str, peak: MemorySegment) -> Iterator[MemoryFinding]:
    """Small views that somebody keeps, and with them the whole of what they are views of."""
    last = measured.record.last
    of_holders: defaultdict[str, list[TensorRow]] = defaultdict(list)
    for row in last.at_end if last else ():
        holds_all = row.holder_steps >= MIN_HOLDER_STEPS or row.count == 1
        is_kept = bool(row.holder) and holds_all and not row.holder.startswith(GRAPH) and row.older_bytes > 0
        if row.device == device and is_kept and 0 < row.viewed_bytes * MANY_TIMES <= row.bytes:
            of_holders[row.holder].append(row)
    for holder, rows in of_holders.items():
        largest = max(rows, key=lambda each: each.bytes)
        function, file, line = made_at(holder, rows[0].holder_stack, innermost(measured.record.stack_of(largest)))
        viewed = sum(each.viewed_bytes for each in rows)
        size = sum(each.bytes for each in rows) - viewed
        yield MemoryFinding(
            cause="views-kept",
            place=device,
            file=file,
            line=line or None,
            function=function,
            holder=holder,
            gain_bytes=size,
            share=size / max(memory_of(peak, device).peak_bytes, 1),
            measured=True,
            bytes_a_step=0.0,
            words=f"{holder} holds views of {viewed / 2**20:.2f} MiB together, and each view keeps the "
            "whole tensor that it is a part of. Keep a copy of the part: .clone(). What is written into the tensor "
            "later does not reach a copy.",
            basis="counted: what they are views of, less the views",
        )


def _tried(measured: MeasuredMemory, device: str) -> Iterator[MemoryFinding]:
    """What was tried on copies on this device, and needed less."""
    trial = measured.record.trials.get("checkpointing")
    if not trial or trial.error or not trial.applies or trial.device != device:
        return
    if trial.changed_bytes < trial.as_it_is_bytes:
        yield _checkpointing(measured, device, trial)


def _checkpointing(measured: MeasuredMemory, device: str, trial: MemoryTrial) -> MemoryFinding:
    steps = [each for each in measured.record.training if any(of.device == device for of in each.devices)]
    peak = max((memory_of(each, device).peak_bytes for each in steps), default=0)
    saved = trial.as_it_is_bytes - trial.changed_bytes
    slower = trial.changed_s / max(trial.as_it_is_s, 1e-9)
    return MemoryFinding(
        cause="checkpointing",
        place=device,
        file="",
        line=None,
        function="",
        holder="",
        gain_bytes=saved,
        share=saved / max(peak, 1),
        measured=True,
        bytes_a_step=0.0,
        words=f"Tried on a copy of {trial.about}: with torch.utils.checkpoint around each of its blocks, activations "
        f"are computed again instead of kept. A forward and backward pass then took {slower:.2f} times as long. "
        "A batch norm in a block counts each batch twice.",
        basis="measured: the peak of a forward and backward pass of a copy, before and after",
    )
