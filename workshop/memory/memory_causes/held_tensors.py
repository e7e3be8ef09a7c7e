"""Tensors that somebody holds on to: graphs and outputs that become more with each step, and views of whole tensors."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from workshop.memory.assignments import assignment_of, given_at, made_at
from workshop.memory.growth import MIN_BYTES_A_STEP, GrowingLine, growing_lines, process_growth
from workshop.memory.memory_findings import MemoryCause, MemoryFinding
from workshop.memory.memory_lines import (
    MIN_HOLDER_STEPS,
    UNKNOWN,
    highest_peak,
    innermost,
    made_in,
    memory_of,
    peak_segment,
)
from workshop.memory.memory_record import MemoryRecord
from workshop.memory.memory_run import MeasuredMemory
from workshop.notebooks.cell_places import line_of
from workshop.probe.memory.memory_notes import OldGraph, TensorKind, TensorRow
from workshop.probe.observations import WireFrame

LEFT = "counted: what each recorded step has left"
LEFT_AND_GROWN = "counted: what each recorded step has left, and what the process has grown by"
ONLY_LATER = "Only what a later backward pass goes through has to stay."
LET_GO = MemoryCause(
    "graph-kept",
    "{who} keeps the graphs of steps that are over. {operations}Instead, keep a number, loss.item(), or a tensor "
    f"without its graph, loss.detach(). {ONLY_LATER}",
    LEFT_AND_GROWN,
    grows=True,
)
LET_ALL_GO = MemoryCause(
    "graph-kept",
    "{who} keeps the graphs of steps that are over. {operations}Instead, count or add up what is needed of it in each "
    "step, and keep these numbers; .detach() lets only the graph go, and what is held by itself stays. "
    f"{ONLY_LATER}",
    LEFT_AND_GROWN,
    grows=True,
)
CYCLES = MemoryCause(
    "graph-of-gradients",
    "backward(create_graph=True) keeps a graph of the gradients, and the parameters hold their gradients: a cycle that "
    "only Python's garbage collector frees, now and then. If no others are taken of these gradients, call backward() "
    "without it; if they are, torch.autograd.grad() makes no cycle.",
    LEFT_AND_GROWN,
)
OUTPUTS_KEPT = MemoryCause(
    "outputs-kept",
    "{who} {what}{drops}. Keep only what is used later: numbers (.item()), or the last few; or move them to disk.",
    LEFT,
    grows=True,
)
EPOCH_KEPT = MemoryCause(
    "epoch-kept",
    "{who} {what}, until the epoch is over. Add up what is needed of them instead{move}.",
    LEFT,
)
VIEWS_KEPT = MemoryCause(
    "views-kept",
    "{holder} holds views of {viewed_mib:.2f} MiB together, and each view keeps the whole tensor that it is a part of. "
    "Keep a copy of the part: .clone(). What is written into the tensor later does not reach a copy.",
    "counted: what they are views of, less the views",
)

MIN_STEPS = 5
MIN_OPERATIONS_A_STEP = 0.5
"""Steps, and operations that a graph gains with each, at least: else it may be another one, as of an initial state."""

MIN_GROWTH = 1.5
"""Times, at least, that a graph has the operations that it had when half as many steps were over."""

MIN_TIMES = 4
"""Times that views must be smaller than what they keep, at least."""


def find(measured: MeasuredMemory) -> Iterator[MemoryFinding]:
    """Yield what grows, of one line to change as one finding; what grows because of views is told as views."""
    views = [*_views(measured.record)]
    of_lines: defaultdict[object, list[MemoryFinding]] = defaultdict(list)
    for each in _grown(measured):
        of_lines[(each.file, each.line) if each.line else id(each)].append(each)
    yield from views
    for each in map(_together, of_lines.values()):
        if each.kind is not OUTPUTS_KEPT or each.holder not in {view.holder for view in views}:
            yield each


def _together(findings: list[MemoryFinding]) -> MemoryFinding:
    """What one line keeps, named by the first of the findings, or by the largest of those that are alike."""
    first = max((each for each in findings if each.cause == findings[0].cause), key=lambda each: each.bytes_a_step)
    return replace(
        first,
        gain_bytes=sum(each.gain_bytes for each in findings),
        bytes_a_step=sum(each.bytes_a_step for each in findings),
        others=tuple(sorted({each.holder for each in findings if each.holder != first.holder})),
    )


def _grown(measured: MeasuredMemory) -> list[MemoryFinding]:
    record, found = measured.record, list[MemoryFinding]()
    lines = growing_lines(record)
    nobodys = [each for each in lines if not each.holder]
    graph = _growing_graph(record) or (_last_graph(record) if nobodys else None)
    of_graph = [each for each in lines if _is_of_graph(each, graph)]
    backward = _backward_with_graph(record)
    if backward and graph and not graph.holder:
        of_graph = [each for each in lines if not each.holder or _is_of_graph(each, graph)]
        found.append(replace(_graph_kept(measured, of_graph, graph), kind=CYCLES, at=backward))
    elif of_graph or graph:
        found.append(_graph_kept(measured, of_graph, graph))
    return found + [_kept(record, each) for each in lines if each not in of_graph]


def _is_of_graph(line: GrowingLine, graph: OldGraph | None) -> bool:
    """Whether tensors are there because of a graph: autograd keeps them, or they have one that goes back."""
    if line.by_graph or (not line.holder and (graph or line.kind == TensorKind.ACTIVATIONS)):
        return True
    return graph is not None and bool(line.holder) and line.holder == graph.holder


def _growing_graph(record: MemoryRecord) -> OldGraph | None:
    """The largest graph that goes back to earlier steps, if it gains operations with each step, or does in an epoch."""
    graphs = _of_several_steps(record.graphs)
    for graph in sorted(graphs, key=lambda each: (-each.steps, -each.old_operations)):
        is_old = _grows(graph.old_operations, graph.steps)
        is_old = is_old and not _stays(graph, [each for each in graphs if each.holder == graph.holder])
        if is_old or _grows(graph.epoch_operations, graph.epoch_steps):
            return graph
    return None


def _of_several_steps(graphs: list[OldGraph]) -> list[OldGraph]:
    """The graphs without those of a single step, such as that of the last validation's loss."""
    return [each for each in graphs if each.holder_steps >= MIN_HOLDER_STEPS]


def _last_graph(record: MemoryRecord) -> OldGraph | None:
    """The largest graph of the last look that a variable holds: what grows, and nobody holds, hangs on it."""
    graphs = _of_several_steps(record.graphs)
    steps = max((each.steps for each in graphs), default=0)
    held = [each for each in graphs if each.steps == steps and each.holder]
    return max(held, key=lambda each: each.old_operations, default=None)


def _backward_with_graph(record: MemoryRecord) -> WireFrame | None:
    """The line of a backward pass that keeps a graph of the gradients, if there is one."""
    freed = [each for segment in record.training for each in segment.freed]
    stacks = [each.stack for each in freed if each.cause == CYCLES.name and each.stack >= 0]
    return innermost(record.stacks[stacks[-1]]) if stacks else None


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
        return f"{graph.old_operations} operations of {graph.steps} earlier steps hang on it. "
    return f"{graph.epoch_operations} operations of the epoch's {graph.epoch_steps} earlier steps hang on it. "


def _graph_kept(measured: MeasuredMemory, lines: list[GrowingLine], graph: OldGraph | None) -> MemoryFinding:
    """All lines whose tensors a graph keeps are one finding, at the holder."""
    host = process_growth(measured.host.looks, measured.reports)
    holder = graph.holder if graph else next((each.holder for each in lines if each.holder), "")
    held = [(each.by_graph or not each.holder, each.bytes_a_step, each.bytes) for each in lines]
    held = held or _held(measured.record, graph)
    rate, gained = sum(each for _, each, _ in held), float(sum(each for _, _, each in held))
    if host and not lines and host.bytes_a_step > rate:  # tensors are too small to be told of: the nodes count
        rate, gained = host.bytes_a_step, max(gained, host.bytes)
    by_itself = sum(each for is_graphs, each, _ in held if not is_graphs)
    device, at = lines[0].device if lines else "host", _place(holder, lines, graph)
    kind = LET_ALL_GO if by_itself > max(rate / 2, MIN_BYTES_A_STEP) else LET_GO
    about = {"who": holder or "Something", "operations": _operations(graph) if graph else ""}
    peak = highest_peak(measured.record, device.replace("host", "cpu"))  # what is in Python
    return MemoryFinding(kind, device, round(gained), peak, at, holder, bytes_a_step=rate, figures=about)


def _held(record: MemoryRecord, graph: OldGraph | None) -> list[tuple[bool, float, int]]:
    """What there was of earlier steps in the end, at the holder of a graph: by the graph alone, bytes a step, bytes."""
    last = record.last
    if last is None or graph is None or not graph.holder:
        return []
    rows = [each for each in last.at_end if each.holder == graph.holder]
    steps = graph.epoch_steps if _is_of_epoch(graph) else graph.steps
    sizes = [each.bytes if each.stack < 0 else each.older_bytes for each in rows]  # nobody saw those allocated
    return [(each.by_graph, size / steps, size) for each, size in zip(rows, sizes, strict=True)]


def _place(holder: str, lines: list[GrowingLine], graph: OldGraph | None) -> WireFrame:
    """The line that assigns to the holder, if the source shows it; else that of the tensors."""
    stacks = [graph.holder_stack] if graph else []
    stacks += [each.holder_stack for each in lines if each.holder == holder]
    for each in stacks:
        if filled := assignment_of(holder, each, grows="[...]" in holder):
            return given_at(holder, filled)
    made = [(each.function, each.file, each.line) for each in lines if each.file]
    held = [(*each[0][:2], 0) for each in stacks if each]
    return next(iter([*made, *held]), UNKNOWN)


def _kept(record: MemoryRecord, line: GrowingLine) -> MemoryFinding:
    made = (line.function, line.file, line.line)
    at = assignment_of(line.holder, line.holder_stack, grows="[...]" in line.holder) or made
    line_at = line_of(line.file, line.line) if at[1] != line.file else f"line {line.line}"
    what = f"what {line_at} makes in each step" if line.file else "tensors of each step"
    dtype = f" ({line.dtype})" if line.dtype not in ("float32", "") else ""
    about = {
        "who": f"{line.holder} ({line.held_in}) holds" if line.holder else "Something holds",
        "what": f"{what}{dtype}",
        "drops": ", and drops nothing" if line.holder else "",
        "move": ", or move them to the CPU as they come" if line.device != "cpu" else "",
    }
    kind, peak = EPOCH_KEPT if line.until == "epoch" else OUTPUTS_KEPT, highest_peak(record, line.device)
    rate = line.bytes_a_step
    return MemoryFinding(kind, line.device, line.bytes, peak, at, line.holder, bytes_a_step=rate, figures=about)


def _views(record: MemoryRecord) -> Iterator[MemoryFinding]:
    """Yield what holds small views, as it was when holders were last looked for."""
    of_holders: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
    for row in record.last.at_end if record.last else ():
        holds_all = row.holder_steps >= MIN_HOLDER_STEPS or row.count == 1
        is_kept = bool(row.holder) and holds_all and not row.by_graph and row.older_bytes > 0
        if is_kept and 0 < row.viewed_bytes * MIN_TIMES <= row.bytes:
            of_holders[row.device, row.holder].append(row)
    for (device, holder), rows in of_holders.items():
        if peak := peak_segment(record, device):
            at = made_at(holder, rows[0].holder_stack, made_in(record, rows))
            viewed = sum(each.viewed_bytes for each in rows)
            size, whole = sum(each.bytes for each in rows) - viewed, memory_of(peak, device).peak_bytes
            yield MemoryFinding(VIEWS_KEPT, device, size, whole, at, holder, figures={"viewed_mib": viewed / 2**20})
