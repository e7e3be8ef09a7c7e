"""What becomes more with each step: graphs that are kept, and tensors that are collected."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from workshop.memory.assignments import assignment_of, given_at
from workshop.memory.growth import MIN_BYTES_A_STEP, GrowingLine, growing_lines, process_growth
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_lines import MIN_HOLDER_STEPS, devices_of, innermost
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.holder_names import GRAPH
from workshop.probe.memory.memory_notes import OldGraph, TensorKind
from workshop.probe.observations import WireFrame
from workshop.terminal import some_of

MIN_STEPS = 5
MIN_OPERATIONS_A_STEP = 0.5
"""A graph that gains fewer operations a step may be one of another kind, such as that of an initial state."""

MIN_GROWTH = 1.5
"""A graph that grows has this many times the operations that it had when half as many steps were over, at least."""

CYCLES = (
    "backward(create_graph=True) keeps a graph of the gradients, and the parameters hold their gradients: a cycle that "
    "only Python's garbage collector frees, now and then. If no others are taken of these gradients, call backward() "
    "without it; if they are, torch.autograd.grad() makes no cycle."
)
LET_GO = "keep a number, loss.item(), or a tensor without its graph, loss.detach()"
LET_ALL_GO = (
    "count or add up what is needed of it in each step, and keep these numbers; .detach() lets only the graph go, and "
    "what is held by itself stays"
)


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what grows; of one line to change, as one finding."""
    of_lines: defaultdict[object, list[MemoryFinding]] = defaultdict(list)
    for each in _grown(measured):
        of_lines[(each.file, each.line) if each.line else each].append(each)
    yield from map(_together, of_lines.values())


def _together(findings: list[MemoryFinding]) -> MemoryFinding:
    """What one line keeps, named by the first of the findings, or by the largest of those that are alike."""
    first = max((each for each in findings if each.cause == findings[0].cause), key=lambda each: each.bytes_a_step)
    others = sorted({each.holder for each in findings if each.holder != first.holder})
    so_are = f" The same goes for {some_of(others)}." if others else ""
    return replace(
        first,
        gain_bytes=sum(each.gain_bytes for each in findings),
        share=min(sum(each.share for each in findings), 1.0),
        bytes_a_step=sum(each.bytes_a_step for each in findings),
        words=first.words + so_are,
    )


def _grown(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    lines = growing_lines(measured.record)
    nobodys = [each for each in lines if not each.holder]
    graph = _growing_graph(measured) or (_last_graph(measured) if nobodys else None)
    of_graph = [each for each in lines if _is_of_graph(each, graph)]
    backward = _backward_with_graph(measured)
    if backward and graph and not graph.holder:
        of_graph = [each for each in lines if not each.holder or _is_of_graph(each, graph)]
        function, file, line = backward
        found = _graph_kept(measured, of_graph, graph)
        yield replace(found, cause="graph-of-gradients", function=function, file=file, line=line, words=CYCLES)
    elif of_graph or graph:
        yield _graph_kept(measured, of_graph, graph)
    for each in lines:
        if each not in of_graph:
            yield _kept(measured, each)


def _is_of_graph(line: GrowingLine, graph: OldGraph | None) -> bool:
    """Whether tensors are there because of a graph: autograd keeps them, or they have one that goes back."""
    if line.holder.startswith(GRAPH) or (not line.holder and (graph or line.kind == TensorKind.ACTIVATIONS)):
        return True
    return graph is not None and bool(line.holder) and line.holder == graph.holder


def _growing_graph(measured: MeasuredMemory) -> OldGraph | None:
    """The largest graph that goes back to earlier steps, if it gains operations with each step, or does in an epoch."""
    graphs = _of_several_steps(measured.record.graphs)
    for steps in sorted({each.steps for each in graphs}, reverse=True):
        for each in sorted((one for one in graphs if one.steps == steps), key=lambda one: -one.old_operations):
            same = [one for one in graphs if one.holder == each.holder]
            is_old = _grows(each.old_operations, steps) and not _stays(each, same)
            if is_old or _grows(each.epoch_operations, each.epoch_steps):
                return each
    return None


def _of_several_steps(graphs: list[OldGraph]) -> list[OldGraph]:
    """The graphs without those of a single step, such as that of the last validation's loss."""
    return [each for each in graphs if each.holder_steps >= MIN_HOLDER_STEPS]


def _last_graph(measured: MeasuredMemory) -> OldGraph | None:
    """The largest graph of the last look that a variable holds: what grows, and nobody holds, hangs on it."""
    graphs = _of_several_steps(measured.record.graphs)
    steps = max((each.steps for each in graphs), default=0)
    held = [each for each in graphs if each.steps == steps and each.holder]
    return max(held, key=lambda each: each.old_operations, default=None)


def _backward_with_graph(measured: MeasuredMemory) -> WireFrame | None:
    """The line of a backward pass that keeps a graph of the gradients, if there is one."""
    freed = [each for segment in measured.record.training for each in segment.freed]
    stacks = [stack for cause, _, stack in freed if cause.startswith("graph-of-gradients") and stack >= 0]
    return innermost(measured.record.stacks[stacks[-1]]) if stacks else None


def _stays(graph: OldGraph, graphs: list[OldGraph]) -> bool:
    """Whether a graph was about as large long before or after, as that of the last validation is."""
    before = [each.old_operations for each in graphs if 2 * each.steps <= graph.steps]
    after = [each.old_operations for each in graphs if each.steps >= 2 * graph.steps]
    grew = not before or graph.old_operations >= MIN_GROWTH * max(before)
    goes_on = not after or max(after) >= MIN_GROWTH * graph.old_operations
    return not (grew and goes_on)


def _grows(operations: int, steps: int) -> bool:
    return steps >= MIN_STEPS and operations >= MIN_OPERATIONS_A_STEP * steps


def _is_of_epoch(graph: OldGraph) -> bool:
    """Whether a graph began with the epoch: it is let go when that is over."""
    return 0 < graph.epoch_operations >= graph.old_operations and graph.epoch_steps < graph.steps


def _operations(graph: OldGraph) -> str:
    if _grows(graph.old_operations, graph.steps) and not _is_of_epoch(graph):
        return f"{graph.old_operations} operations of {graph.steps} earlier steps"
    return f"{graph.epoch_operations} operations of the epoch's {graph.epoch_steps} earlier steps"


def _graph_kept(measured: MeasuredMemory, lines: list[GrowingLine], graph: OldGraph | None) -> MemoryFinding:
    """All lines whose tensors a graph keeps are one finding, at the holder."""
    host = process_growth(measured.host.looks, measured.reports)
    holder = graph.holder if graph else next((each.holder.removeprefix(GRAPH) for each in lines if each.holder), "")
    held = [(each.holder, each.bytes_a_step, each.bytes) for each in lines] or _held(measured, graph)
    of_tensors, gained = sum(each for _, each, _ in held), sum(each for _, _, each in held)
    in_python = host.bytes_a_step if host else 0.0
    is_in_python = not lines and in_python > of_tensors  # of tensors that are too small to be told of, the nodes count
    rate = in_python if is_in_python else of_tensors
    if host and is_in_python:
        gained = max(gained, host.bytes)
    function, file, line = _place(holder, lines, graph)
    operations = f"{_operations(graph)} hang on it. " if graph else ""
    by_itself = sum(each for holder, each, _ in held if holder and not holder.startswith(GRAPH))
    let_go = LET_ALL_GO if by_itself > max(rate / 2, MIN_BYTES_A_STEP) else LET_GO
    return MemoryFinding(
        cause="graph-kept",
        place=lines[0].device if lines else "host",
        file=file,
        line=line or None,
        function=function,
        holder=holder,
        gain_bytes=round(gained),
        share=_share(measured, lines[0].device if lines else "cpu", gained),
        measured=True,
        bytes_a_step=rate,
        words=f"{holder or 'Something'} keeps the graphs of steps that are over. {operations}Instead, {let_go}. "
        "Only what a later backward pass goes through has to stay.",
        basis="counted: what each recorded step has left, and what the process has grown by",
    )


def _held(measured: MeasuredMemory, graph: OldGraph | None) -> list[tuple[str, float, int]]:
    """What there was of earlier steps in the end, at the holder of a graph: who holds it, bytes a step, and bytes."""
    last = measured.record.last
    if last is None or graph is None or not graph.holder:
        return []
    rows = [each for each in last.at_end if each.holder.removeprefix(GRAPH) == graph.holder]
    steps = graph.epoch_steps if _is_of_epoch(graph) else graph.steps
    sizes = [each.bytes if each.stack < 0 else each.older_bytes for each in rows]  # nobody saw those allocated
    return [(each.holder, size / steps, size) for each, size in zip(rows, sizes, strict=True)]


def _place(holder: str, lines: list[GrowingLine], graph: OldGraph | None) -> tuple[str, str, int]:
    """The line that assigns to the holder, if the source shows it; else that of the tensors."""
    stacks = [graph.holder_stack] if graph else []
    stacks += [each.holder_stack for each in lines if each.holder.removeprefix(GRAPH) == holder]
    for each in stacks:
        if filled := assignment_of(holder, each, grows="[...]" in holder):
            return given_at(holder, filled)
    made = [(each.function, each.file, each.line) for each in lines if each.file]
    held = [(*each[0][:2], 0) for each in stacks if each]
    return next(iter([*made, *held]), ("", "", 0))


def _kept(measured: MeasuredMemory, line: GrowingLine) -> MemoryFinding:
    at = assignment_of(line.holder, line.holder_stack, grows="[...]" in line.holder)
    function, file, number = at or (line.function, line.file, line.line)
    held = f"{line.holder} ({line.held_in}) holds" if line.holder else "Something holds"
    of_file = f" of {Path(line.file).name}" if file != line.file else ""
    what = f"what line {line.line}{of_file} makes in each step" if line.file else "tensors of each step"
    if line.until == "epoch":
        move = ", or move them to the CPU as they come" if line.device != "cpu" else ""
        how = f", until the epoch is over. Add up what is needed of them instead{move}"
    else:
        drops = ", and drops nothing" if line.holder else ""
        how = f"{drops}. Keep only what is used later: numbers (.item()), or the last few; or move them to disk"
    dtype = f" ({line.dtype})" if line.dtype not in ("float32", "") else ""
    return MemoryFinding(
        cause="epoch-kept" if line.until == "epoch" else "outputs-kept",
        place=line.device,
        file=file,
        line=number or None,
        function=function,
        holder=line.holder,
        gain_bytes=line.bytes,
        share=_share(measured, line.device, line.bytes),
        measured=True,
        bytes_a_step=line.bytes_a_step,
        words=f"{held} {what}{dtype}{how}.",
        basis="counted: what each recorded step has left",
    )


def _share(measured: MeasuredMemory, device: str, size: float) -> float:
    peaks = [of.peak_bytes for each in measured.record.segments for of in each.devices if of.device == device]
    if device not in devices_of(measured.record) or not peaks:
        return 0.0
    return min(size / max(peaks), 1.0)
