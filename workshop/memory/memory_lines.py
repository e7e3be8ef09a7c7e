"""The tensors of a device when there was most of them, by the line that has allocated them, with their holders."""

import linecache
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import (
    MAX_VALIDATIONS,
    OF_TRAINING,
    LowerPeak,
    MemorySegment,
    SegmentName,
    TensorKind,
    TensorRow,
    TensorsOfDevice,
)
from workshop.probe.observations import WireFrame

UNKNOWN: WireFrame = ("", "", 0)

MIN_HOLDER_STEPS = 2
"""Earlier steps, at least, of which a holder has tensors: else it may be a variable that each step assigns anew."""

MIN_SHARE_OF_LARGEST, MIN_SHARE_BEFORE_IT = 0.8, 0.45
"""Share of the line that makes most, at least, that another makes to be told with it: any line, and one before it whose
tensors are each as large, as an operator may keep one that it makes of it, and a gradient."""


@dataclass(frozen=True)
class LineMemory:
    """What tensors of one kind take that were allocated in one line."""

    device: str
    kind: str
    file: str
    """The path of the user's file; empty if no line is known, as of what was there before it was followed."""
    line: int
    function: str
    text: str
    dtypes: tuple[str, ...]
    bytes: int
    count: int
    since: str
    """Since when the oldest of them is there; empty if that is not known."""
    holder: str
    """Who holds most of them, such as "history.losses[...]"; empty if it was not looked for, or not found."""
    held_in: str
    """The file and the function of that variable."""


def peak_segment(record: MemoryRecord, device: str) -> MemorySegment | None:
    """Return the recorded segment with the most on a device; the one that has failed, if one has.

    Where the allocator was not asked, what operators allocate inside is missing: of a name, the others come first.
    """
    if record.failed and has_device(record.failed, device):
        return record.failed
    highest: dict[str, MemorySegment] = {}

    def height(segment: MemorySegment) -> tuple[bool, int]:
        memory = memory_of(segment, device)
        return memory.allocator_bytes is not None, memory.peak_bytes

    for each in record.segments:
        if has_device(each, device):
            highest[each.name] = max(highest.get(each.name, each), each, key=height)
    return max(highest.values(), key=lambda each: memory_of(each, device).peak_bytes, default=None)


def memory_of(segment: MemorySegment, device: str) -> TensorsOfDevice:
    """Return the sums of a device in a segment."""
    return next(each for each in segment.devices if each.device == device)


def has_device(segment: MemorySegment, device: str) -> bool:
    """Return whether there were tensors on a device in a segment."""
    return any(of.device == device for of in segment.devices)


def peak_without(segment: MemorySegment, cause: str, device: str) -> LowerPeak | None:
    """Return how much lower the peak of a segment is without what a cause is about; None if it is not."""
    return next((each for each in segment.freed if (each.cause, each.device) == (cause, device)), None)


def lower_peak(record: MemoryRecord, device: str, segment: MemorySegment, saved: int, cause: str = "") -> int:
    """Return by how much the peak of the run is lower if that of a segment is: others may have a higher one.

    Segments of another name are taken as they would be without that `cause`. Steps after the last validation that was
    recorded count only if there was none after it: what that has left is not known for what it is.
    """
    same = [each.step for each in record.segments if each.name == segment.name]
    all_recorded = segment.name != SegmentName.VALIDATION or len(same) < MAX_VALIDATIONS
    others = [each for each in record.segments if each.name != segment.name and has_device(each, device)]
    peaks = [
        memory_of(each, device).peak_bytes - (lower.bytes if (lower := peak_without(each, cause, device)) else 0)
        for each in others
        if all_recorded or each.step <= max(same)
    ]
    return max(0, min(saved, memory_of(segment, device).peak_bytes - max(peaks, default=0)))


def devices_of(record: MemoryRecord) -> list[str]:
    """Return the devices that have tensors, those that are not the CPU first."""
    found = {of.device for each in record.segments for of in each.devices}
    return sorted(found, key=lambda each: (each == "cpu", each))


def highest_peak(record: MemoryRecord, device: str) -> int:
    """Return the most that there was on a device at a time; 0 if nothing was seen of it."""
    return max((of.peak_bytes for each in record.segments for of in each.devices if of.device == device), default=0)


def innermost(stack: Sequence[WireFrame]) -> WireFrame:
    """Return the innermost user frame of a stack."""
    return stack[-1] if stack else UNKNOWN


def made_in(record: MemoryRecord, rows: Iterable[TensorRow]) -> WireFrame:
    """Return the line that has allocated the largest of some rows."""
    return innermost(record.stack_of(max(rows, key=_bytes)))


def lines_of(
    record: MemoryRecord,
    segment: MemorySegment,
    rows: Iterable[TensorRow],
    frame_of: Callable[[Sequence[WireFrame]], WireFrame] = innermost,
) -> list[LineMemory]:
    """Return rows of a segment as lines, the largest first; `frame_of` chooses a frame of a stack."""
    groups: defaultdict[tuple[str, str, WireFrame], list[TensorRow]] = defaultdict(list)
    for each in rows:
        groups[each.device, each.kind, frame_of(record.stack_of(each))].append(each)
    found = [_line(record, segment, device, kind, frame, of) for (device, kind, frame), of in groups.items()]
    return sorted(found, key=_bytes, reverse=True)


def _line(
    record: MemoryRecord, segment: MemorySegment, device: str, kind: str, frame: WireFrame, rows: list[TensorRow]
) -> LineMemory:
    function, file, line = frame
    largest = max(rows, key=_bytes)
    held = looked_at(record, largest)
    return LineMemory(
        device=device,
        kind=kind,
        file=file,
        line=line,
        function=function,
        text=linecache.getline(file, line).strip() if file else "",
        dtypes=tuple(dict.fromkeys(each.dtype for each in rows if each.dtype)),
        bytes=sum(each.bytes for each in rows),
        count=sum(each.count for each in rows),
        since=_since(min(each.first_step for each in rows), segment),
        holder=holder_text(held.holder, held.by_graph) if held else "",
        held_in=held_in(held),
    )


def looked_at(record: MemoryRecord, row: TensorRow, of_growth: bool = False) -> TensorRow | None:
    """Return a row as the look has it that has found most of its tensors with their holder; None without one.

    A variable that each step assigns anew holds what one step makes. It is not named for more than there was at the
    look, and never for what steps have left, which is asked for with `of_growth`.
    """
    if row.kind in (*OF_TRAINING, TensorKind.SCRATCH):
        return None
    looked = (each for look in record.looks for each in (*look.at_end, *look.at_peak))
    same = [each for each in (row, *looked) if each.holder and each.group == row.group]
    holding = [
        each for each in same if each.holder_steps >= MIN_HOLDER_STEPS or (row.count <= each.count and not of_growth)
    ]
    return max(holding, key=lambda each: each.older_bytes, default=None)


def holder_text(holder: str, by_graph: bool) -> str:
    """Return who holds something as a person reads it."""
    return f"the graph of {holder}" if by_graph else holder


def held_in(row: TensorRow | None) -> str:
    """Return the function of the variable that holds the tensors of a row; empty without one."""
    if row is None:
        return ""
    function, _, line = row.holder_stack[0] if row.holder_stack else UNKNOWN
    return function if line else "a module"


def _since(first: int, segment: MemorySegment) -> str:
    if segment.name == SegmentName.SNAPSHOT:
        return ""
    if first < 0:
        return "before the first step"
    return "this step" if first >= segment.step else f"step {first}"


def by_kind(lines: Iterable[LineMemory]) -> dict[str, int]:
    """Return the bytes of each kind, in the order of `TensorKind`."""
    found: dict[str, int] = {str(kind): 0 for kind in TensorKind}
    for each in lines:
        found[each.kind] += each.bytes
    return {kind: size for kind, size in found.items() if size}


@dataclass(frozen=True)
class DevicePeak:
    """The tensors of a device when there was most of them."""

    record: MemoryRecord
    segment: MemorySegment
    device: str

    @property
    def memory(self) -> TensorsOfDevice:
        """The sums."""
        return memory_of(self.segment, self.device)

    @cached_property
    def lines(self) -> list[LineMemory]:
        """The tensors by the line that has allocated them, the largest first."""
        return lines_of(self.record, self.segment, self._rows)

    @property
    def _rows(self) -> list[TensorRow]:
        return [each for each in self.segment.at_peak if each.device == self.device]

    @property
    def kinds(self) -> dict[str, int]:
        """The bytes of each kind; their sum is the peak."""
        return by_kind(self.lines)

    @cached_property
    def largest_lines(self) -> list[LineMemory]:
        """The lines of the user's function that make most, of all kinds but those of the training, in their order.

        Where several make about as much, later ones often compute with what the first one has made, or has called for.
        """
        most = max(_together(self.lines), key=_bytes, default=None)
        if most is None:
            return []

        def called_in(stack: Sequence[WireFrame]) -> WireFrame:
            within = [each for each in stack if (each[1], each[0]) == (most.file, most.function)]
            return innermost(within)

        beside = _together(lines_of(self.record, self.segment, self._rows, called_in))
        others = [each for each in beside if each.line != most.line and _is_as_much(each, most)]
        return sorted([*others, most], key=lambda each: each.line)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "device": self.device,
            "step": self.segment.step,
            "during": self.segment.name,
            "failure": self.segment.failure,
            "peak_bytes": self.memory.peak_bytes,
            "steps_bytes": [
                of.peak_bytes for each in self.record.training for of in each.devices if of.device == self.device
            ],
            "allocator_bytes": self.memory.allocator_bytes,
            "followed_bytes": self.memory.followed_bytes,
            "allocator": self.memory.allocator and vars(self.memory.allocator),
            "kinds": self.kinds,
            "largest": next((vars(each) for each in self.largest_lines), None),
            "largest_lines": [vars(each) for each in self.largest_lines],
            "lines": [vars(each) for each in self.lines],
            "curve": self.memory.curve,
        }


def device_peaks(record: MemoryRecord) -> list[DevicePeak]:
    """Return the peak of each device, the CPU's last."""
    segments = ((device, peak_segment(record, device)) for device in devices_of(record))
    return [DevicePeak(record, segment, device) for device, segment in segments if segment]


def _together(lines: list[LineMemory]) -> list[LineMemory]:
    """All kinds but those of the training together, of each line."""
    found: dict[tuple[str, int], list[LineMemory]] = {}
    for each in lines:
        if each.file and each.kind not in OF_TRAINING:
            found.setdefault((each.file, each.line), []).append(each)
    return [
        replace(max(of, key=_bytes), bytes=sum(map(_bytes, of)), count=sum(each.count for each in of))
        for of in found.values()
    ]


def _is_as_much(line: LineMemory, most: LineMemory) -> bool:
    """Whether a line makes about as much, or is before it and makes tensors that are as large, such as logits."""
    is_before, sizes = line.line < most.line, [each.bytes / max(each.count, 1) for each in (line, most)]
    least = MIN_SHARE_BEFORE_IT if is_before and sizes[0] >= MIN_SHARE_OF_LARGEST * sizes[1] else MIN_SHARE_OF_LARGEST
    return least * most.bytes <= line.bytes <= most.bytes


def _bytes(of: LineMemory | TensorRow) -> int:
    return of.bytes
