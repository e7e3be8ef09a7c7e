"""The tensors of a device when there was most of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from workshop.memory.memory_lines import (
    LineMemory,
    by_kind,
    devices_of,
    innermost,
    lines_of,
    memory_of,
    peak_segment,
)
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import OF_TRAINING, MemorySegment, TensorRow, TensorsOfDevice
from workshop.probe.observations import WireFrame

MIN_SHARE_OF_LARGEST, MIN_SHARE_BEFORE_IT = 0.8, 0.45
"""Share of the line that makes most, at least, that another makes to be told with it: any line, and one before it whose
tensors are each as large, as an operator may keep one that it makes of it, and a gradient."""


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

    @property
    def largest(self) -> LineMemory | None:
        """The first of these lines; None if there is none."""
        return next(iter(self.largest_lines), None)

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
            "kinds": self.kinds,
            "largest": self.largest and vars(self.largest),
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


def _bytes(line: LineMemory) -> int:
    return line.bytes
