"""What grows from step to step: tensors by line and holder, and what a process has in memory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.memory.assignments import is_limited
from workshop.memory.host_watch import HostLook
from workshop.memory.memory_findings import MIN_BYTES
from workshop.memory.memory_lines import held_in, holder_text, innermost, looked_at
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import OF_TRAINING, MemorySegment, TensorRow
from workshop.probe.messages import StepReport
from workshop.probe.observations import WireFrame

MIN_STEPS, MIN_SHARE_OF_STEPS = 3, 0.3
"""Recorded steps, and share of them, at least, that have left something that grows."""

STEPS, MIN_SHARE, MIN_BYTES_A_STEP = 10_000, 0.05, 64.0
"""Share of the peak, at least, that so many steps add to it, and bytes, at least, that each of them does."""

MAX_SHARE_LEFT = 0.3
"""Share of what there was, at most, that is left of what the end of an epoch clears."""

SHARE_TO_SETTLE = 0.3
"""Share of the time in which libraries fill their caches, and allocators their reserves."""

MIN_LOOKS, MIN_FIT = 8, 0.8
"""Looks at a process, and share of their spread that a line explains, at least, for a process to grow."""


@dataclass(frozen=True)
class GrowingLine:
    """Tensors of one line that each step leaves more of."""

    device: str
    kind: str
    file: str
    line: int
    function: str
    dtype: str
    bytes_a_step: float
    bytes: int
    """What there was of them in the end."""
    holder: str
    held_in: str
    until: str
    """"the end": they stay; "epoch": they are let go when an epoch is over."""
    holder_stack: tuple[WireFrame, ...] = ()
    """As in `TensorRow`."""
    by_graph: bool = False
    """As in `TensorRow`."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {name: value for name, value in asdict(self).items() if name not in ("holder_stack", "by_graph")}
        return values | {"holder": self.held_by}

    @property
    def held_by(self) -> str:
        """Who holds them, as a person reads it."""
        return holder_text(self.holder, self.by_graph)


@dataclass(frozen=True)
class ProcessGrowth:
    """A process that has more and more in memory."""

    pid: int
    bytes_a_step: float
    bytes_a_s: float
    bytes: int
    """The difference between the end and the beginning of the line."""


def growing_lines(record: MemoryRecord) -> list[GrowingLine]:
    """Return the lines whose tensors become more from step to step, those that grow fastest first."""
    steps = [each for each in record.training if not each.is_last and not each.failure]
    if len(steps) < MIN_STEPS:
        return []
    rows = {row.group: row for each in steps for row in each.at_end if row.kind not in OF_TRAINING}.values()
    found = [line for row in rows if (line := _growing_line(record, steps, row))]
    found = _together(_together(found, _place), _held)
    peak = max((of.peak_bytes for each in steps for of in each.devices), default=0)
    least = max(MIN_SHARE * peak / STEPS, MIN_BYTES_A_STEP)
    return sorted((each for each in found if each.bytes_a_step >= least), key=lambda each: -each.bytes_a_step)


def _growing_line(record: MemoryRecord, steps: list[MemorySegment], row: TensorRow) -> GrowingLine | None:
    """What recorded steps have left of a group; None if that is no growth, or a container has it that will be full."""
    by_step = [(each, one) for each in steps for one in each.at_end if one.group == row.group]
    longest, most = max(by_step, key=lambda each: each[1].older_steps)
    last, is_cleared = max(steps, key=lambda each: each.step), _is_cleared(steps, row)
    recorded = _recorded_in_epoch(steps, longest) if is_cleared else longest.recorded_steps
    is_gone = not is_cleared and all(each is not last for each, _ in by_step)
    if is_gone or most.older_steps < max(MIN_STEPS, MIN_SHARE_OF_STEPS * recorded):
        return None
    in_the_end = _row_of(record.last or steps[-1], row)
    held = looked_at(record, in_the_end, of_growth=True)
    if held and (held.holder_limit or is_limited(held.holder, held.holder_stack)):
        return None
    of_group = [one.older_bytes for each in record.segments for one in each.at_end if one.group == row.group]
    function, file, line = innermost(record.stack_of(row))
    seen_a_step = most.older_seen_bytes / most.older_steps
    return GrowingLine(
        device=row.device,
        kind=row.kind,
        file=file,
        line=line,
        function=function,
        dtype=row.dtype,
        bytes_a_step=seen_a_step * min(1.0, most.older_steps / max(recorded - 1, 1)),
        bytes=max(of_group) if is_cleared else max(in_the_end.older_bytes, most.older_bytes),
        holder=held.holder if held else "",
        held_in=held_in(held),
        until="epoch" if is_cleared else "the end",
        holder_stack=held.holder_stack if held else (),
        by_graph=held is not None and held.by_graph,
    )


def _row_of(segment: MemorySegment, row: TensorRow) -> TensorRow:
    """The same group as it was at the end of a segment."""
    return next((each for each in segment.at_end if each.group == row.group), row)


def _together(lines: Iterable[GrowingLine], key: Callable[[GrowingLine], object]) -> list[GrowingLine]:
    """Put together lines with the same key, at the one that grows fastest of those whose holder is known."""
    groups: defaultdict[object, list[GrowingLine]] = defaultdict(list)
    for each in lines:
        groups[key(each)].append(each)
    found = []
    for same in groups.values():
        largest = max(same, key=lambda each: (bool(each.holder), each.bytes_a_step))
        together = sum(each.bytes_a_step for each in same), sum(each.bytes for each in same)
        found.append(replace(largest, bytes_a_step=together[0], bytes=together[1]))
    return found


def _place(line: GrowingLine) -> object:
    """A tensor, and what its graph keeps, are of the same line."""
    return (line.device, line.file, line.line) if line.file else (line.device, line.kind, line.held_by)


def _held(line: GrowingLine) -> object:
    """What the same list holds may have been seen as it was allocated, or only as it was put there."""
    return (line.device, line.held_by, line.held_in) if line.holder else _place(line)


def _recorded_in_epoch(steps: list[MemorySegment], last: MemorySegment) -> int:
    return sum(each.epoch == last.epoch and each.step <= last.step for each in steps)


def _is_cleared(steps: list[MemorySegment], row: TensorRow) -> bool:
    """Whether they have become much fewer as an epoch was over."""
    seen = [sum(one.older_seen_bytes for one in each.at_end if one.group == row.group) for each in steps]
    return any(
        after.epoch != before.epoch and later < MAX_SHARE_LEFT * earlier
        for (before, after), (earlier, later) in zip(pairwise(steps), pairwise(seen), strict=True)
        if earlier
    )


def settled_s(reports: Sequence[StepReport]) -> float:
    """Return when a process had settled, on the monotonic clock; 0 if it was not seen."""
    if not reports:
        return 0.0
    begin_s, end_s = reports[0].ended_s, reports[-1].ended_s
    return begin_s + SHARE_TO_SETTLE * (end_s - begin_s)


def process_growth(looks: Sequence[HostLook], reports: Sequence[StepReport]) -> ProcessGrowth | None:
    """Return how the process that made the last of some reports has grown over its steps; None if it has not."""
    pid = reports[-1].pid if reports else 0
    reports = [each for each in reports if each.pid == pid]
    if len(reports) < MIN_STEPS:
        return None
    ended_s = np.array([each.ended_s for each in reports])
    steps = np.cumsum([each.steps for each in reports])
    within = [each for each in looks if settled_s(reports) <= each.time_s <= ended_s[-1] and pid in each.processes]
    if len(within) < MIN_LOOKS:
        return None
    times = np.array([each.time_s for each in within])
    sizes = np.array([each.processes[pid].anonymous for each in within], dtype=float)
    slope, start = np.polyfit(times - times[0], sizes, 1)
    growth = slope * (times[-1] - times[0])
    spread = ((sizes - sizes.mean()) ** 2).sum()
    left = ((sizes - start - slope * (times - times[0])) ** 2).sum()
    if growth < MIN_BYTES or left > (1 - MIN_FIT) * spread:
        return None
    passed = np.interp(times[-1], ended_s, steps) - np.interp(times[0], ended_s, steps)
    return ProcessGrowth(pid, float(growth / max(passed, 1.0)), float(slope), int(growth))
