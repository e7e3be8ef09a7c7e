"""What grows from step to step: tensors by line and holder, and what a process has in memory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from workshop.memory.assignments import is_limited
from workshop.memory.host_watch import HostLook
from workshop.memory.memory_lines import holder_of, innermost, looked_at
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import MemorySegment, TensorKind, TensorRow
from workshop.probe.messages import StepReport
from workshop.probe.observations import WireFrame

MIN_STEPS = 3
"""What is left of fewer recorded steps is no growth."""

MIN_SHARE_OF_STEPS = 0.3
"""Nor is what so small a share of them has left."""

STEPS = 10_000
MIN_SHARE = 0.05
MIN_BYTES_A_STEP = 64.0
"""Growth counts if so many steps add this share to the peak, and each of them so many bytes."""

FELL = 0.3
"""What was cleared at the end of an epoch is less than this share of what there was before."""

SETTLING = 0.3
"""For this share of the time, libraries fill their caches, and allocators their reserves."""

MIN_LOOKS = 8
MIN_FIT = 0.8
MIN_GROWTH_BYTES = 4 << 20
"""A process grows if so many looks lie on a line, whose ends differ by so much."""


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

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "holder_stack"}


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
    last = record.last or (steps[-1] if steps else None)
    if len(steps) < MIN_STEPS or last is None:
        return []
    in_the_last = {row.group for row in max(steps, key=lambda each: each.step).at_end}
    found = []
    for row in {row.group: row for each in steps for row in each.at_end}.values():
        longest, is_cleared = _longest(steps, row), _is_cleared(steps, row)
        if not is_cleared and row.group not in in_the_last:
            continue
        recorded = _recorded_in_epoch(steps, longest) if is_cleared else longest.recorded_steps
        enough = max(MIN_STEPS, MIN_SHARE_OF_STEPS * recorded)
        most = next(each for each in longest.at_end if each.group == row.group)
        if row.kind in (TensorKind.PARAMETERS, TensorKind.OPTIMIZER, TensorKind.GRADIENTS) or most.older_steps < enough:
            continue
        rate = most.older_seen_bytes / most.older_steps * min(1.0, most.older_steps / max(recorded - 1, 1))
        in_the_end = next((each for each in last.at_end if each.group == row.group), row)
        of_group = [one.older_bytes for each in record.segments for one in each.at_end if one.group == row.group]
        function, file, line = innermost(record.stack_of(row))
        held = looked_at(record, in_the_end, of_growth=True)
        holder, held_in = holder_of(held)
        if held and (held.holder_limit or is_limited(holder, held.holder_stack)):
            continue  # it is not yet full
        found.append(
            GrowingLine(
                device=row.device,
                kind=row.kind,
                file=file,
                line=line,
                function=function,
                dtype=row.dtype,
                bytes_a_step=rate,
                bytes=max(of_group) if is_cleared else max(in_the_end.older_bytes, most.older_bytes),
                holder=holder,
                held_in=held_in,
                until="epoch" if is_cleared else "the end",
                holder_stack=held.holder_stack if held else (),
            )
        )
    found = _together(_together(found, _place), _held)
    peak = max((of.peak_bytes for each in steps for of in each.devices), default=0)
    least = max(MIN_SHARE * peak / STEPS, MIN_BYTES_A_STEP)
    return sorted((each for each in found if each.bytes_a_step >= least), key=lambda each: -each.bytes_a_step)


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
    return (line.device, line.file, line.line) if line.file else (line.device, line.kind, line.holder)


def _held(line: GrowingLine) -> object:
    """What the same list holds may have been seen as it was allocated, or only as it was put there."""
    return (line.device, line.holder, line.held_in) if line.holder else _place(line)


def _series(steps: Iterable[MemorySegment], row: TensorRow) -> list[tuple[MemorySegment, int]]:
    """The bytes of earlier steps that a row has in each recorded step."""
    return [(each, next((one.older_seen_bytes for one in each.at_end if one.group == row.group), 0)) for each in steps]


def _longest(steps: list[MemorySegment], row: TensorRow) -> MemorySegment:
    return max(
        (each for each in steps if any(one.group == row.group for one in each.at_end)),
        key=lambda each: next(one.older_steps for one in each.at_end if one.group == row.group),
    )


def _recorded_in_epoch(steps: list[MemorySegment], last: MemorySegment) -> int:
    """The number of recorded steps in an epoch, up to one of them."""
    return sum(each.epoch == last.epoch and each.step <= last.step for each in steps)


def _is_cleared(steps: list[MemorySegment], row: TensorRow) -> bool:
    """Whether they have become much fewer as an epoch was over."""
    series = _series(steps, row)
    return any(
        after.epoch != before.epoch and later < FELL * earlier
        for (before, earlier), (after, later) in pairwise(series)
        if earlier
    )


def settled_s(reports: Sequence[StepReport]) -> float:
    """Return when a process had settled, on the monotonic clock; 0 if it was not seen."""
    if not reports:
        return 0.0
    begin_s, end_s = reports[0].ended_s, reports[-1].ended_s
    return begin_s + SETTLING * (end_s - begin_s)


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
    if growth < MIN_GROWTH_BYTES or left > (1 - MIN_FIT) * spread:
        return None
    passed = np.interp(times[-1], ended_s, steps) - np.interp(times[0], ended_s, steps)
    return ProcessGrowth(pid, float(growth / max(passed, 1.0)), float(slope), int(growth))
