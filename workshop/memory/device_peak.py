"""The tensors of a device when there was most of them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from workshop.memory.memory_lines import LineMemory, by_kind, devices_of, lines_of, memory_of, peak_segment
from workshop.memory.memory_record import MemoryRecord
from workshop.probe.memory.memory_notes import OF_TRAINING, MemorySegment, TensorsOfDevice

AS_MUCH = 0.8
"""A line makes about as much as another if it is at least this share of it."""


@dataclass(frozen=True)
class DevicePeak:
    """The tensors of a device when there was most of them."""

    device: str
    segment: MemorySegment
    memory: TensorsOfDevice
    lines: list[LineMemory]

    @property
    def kinds(self) -> dict[str, int]:
        """The bytes of each kind; their sum is the peak."""
        return by_kind(self.lines)

    @cached_property
    def largest_lines(self) -> list[LineMemory]:
        """The lines of the user's function that make most, of all kinds but those of the training, in their order.

        Where several make about as much, later ones often compute with what the first one has made.
        """
        together: dict[tuple[str, int], list[LineMemory]] = {}
        for each in self.lines:
            if each.file and each.kind not in OF_TRAINING:
                together.setdefault((each.file, each.line), []).append(each)
        sums = [replace(max(of, key=_bytes), bytes=sum(map(_bytes, of))) for of in together.values()]
        most = max(sums, key=_bytes, default=None)
        if most is None:
            return []
        beside = [each for each in sums if (each.file, each.function) == (most.file, most.function)]
        return sorted((each for each in beside if each.bytes >= AS_MUCH * most.bytes), key=lambda each: each.line)

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
            "allocator_bytes": self.memory.allocator_bytes,
            "followed_bytes": self.memory.followed_bytes,
            "kinds": self.kinds,
            "largest": self.largest and vars(self.largest),
            "lines": [vars(each) for each in self.lines],
            "curve": self.memory.curve,
        }


def device_peaks(record: MemoryRecord) -> list[DevicePeak]:
    """Return the peak of each device, the CPU's last."""
    found = []
    for device in devices_of(record):
        if segment := peak_segment(record, device):
            rows = [each for each in segment.at_peak if each.device == device]
            found.append(DevicePeak(device, segment, memory_of(segment, device), lines_of(record, segment, rows)))
    return found


def _bytes(line: LineMemory) -> int:
    return line.bytes
