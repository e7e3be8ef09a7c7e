"""The diagnosis of a script's memory: the peak by kind and line, what grows, the processes, and what could be freed."""

import linecache
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from workshop.memory.assignments import object_filled_at
from workshop.memory.batch_size import LargestBatch, largest_batch
from workshop.memory.growth import GrowingLine, ProcessGrowth, growing_lines, process_growth
from workshop.memory.host_table import HostTable, host_table
from workshop.memory.memory_causes import memory_findings
from workshop.memory.memory_findings import MemoryFinding
from workshop.memory.memory_lines import DevicePeak, device_peaks, devices_of, highest_peak
from workshop.memory.memory_run import MeasuredMemory
from workshop.probe.memory.memory_notes import MIN_HELD, HeldObject, SegmentName

MAX_HELD = 10
"""Containers and arrays, at most, that are shown."""


@dataclass(frozen=True)
class MemoryDiagnosis:
    """What was measured, with everything found in it."""

    measured: MeasuredMemory

    @cached_property
    def peaks(self) -> list[DevicePeak]:
        """The peak of each device, the CPU's last."""
        return device_peaks(self.measured.record)

    @cached_property
    def growing(self) -> list[GrowingLine]:
        """The lines whose tensors become more."""
        return growing_lines(self.measured.record)

    @cached_property
    def process_growth(self) -> ProcessGrowth | None:
        """How the training process grows."""
        return process_growth(self.measured.host.looks, self.measured.reports)

    @cached_property
    def host(self) -> HostTable | None:
        """The processes."""
        return host_table(self.measured)

    @cached_property
    def held(self) -> list[dict[str, Any]]:
        """The largest containers and arrays that variables led to in the end, with at least 1 MiB, largest first."""
        noted = [each for each in self.measured.record.last_held if each.bytes >= MIN_HELD]
        return [_held(each) for each in sorted(noted, key=lambda each: -each.bytes)[:MAX_HELD]]

    @cached_property
    def findings(self) -> list[MemoryFinding]:
        """What could be freed."""
        return memory_findings(self.measured)

    @cached_property
    def largest_batch(self) -> LargestBatch | None:
        """The largest batch that fits."""
        return largest_batch(self.measured)

    @property
    def overhead(self) -> float | None:
        """How much longer the steps took because of what was recorded, as a share; None if that is not known.

        A step with a validation before it, or for which holders were looked for, is longer by itself.
        """
        segments = self.measured.record.segments
        asked = {each.step for each in segments if each.is_last or each.name == SegmentName.VALIDATION}
        recorded = {each.step for each in segments} - asked
        steps = [
            (number, duration_us)
            for report in self.measured.reports
            for number, duration_us in enumerate(report.durations_us, report.first_step)
            if number not in asked
        ]
        plain = sorted(duration_us for number, duration_us in steps if number not in recorded)
        if len(plain) < 5:
            return None
        median_us = plain[len(plain) // 2]
        extra = sum(max(duration_us - median_us, 0) for number, duration_us in steps if number in recorded)
        return extra / max(sum(duration_us for _, duration_us in steps) - extra, 1)

    @property
    def rank_peaks(self) -> dict[int, dict[str, int]]:
        """The peak of each device in bytes, for each of several ranks."""
        return {
            rank: {device: highest_peak(record, device) for device in devices_of(record)}
            for rank, record in sorted(self.measured.ranks.items())
        }

    @property
    def failure(self) -> str:
        """How the run has ended, if it was for want of memory or may have been; empty otherwise."""
        if failed := self.measured.record.failed:
            return f"The script ran out of memory: {failed.failure}"
        if not self.measured.killed:
            return ""
        free = f"; at one time, only {self.host.free_bytes / 2**30:.1f} GiB were free" if self.host else ""
        return f"The script {self.measured.killed}. The kernel does this when memory runs out{free}."

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        steps, host = self.measured.steps, self.host
        return {
            "steps": steps and steps.as_dict(),
            "peaks": [each.as_dict() for each in self.peaks],
            "growing": [each.as_dict() for each in self.growing],
            "process_growth": self.process_growth and asdict(self.process_growth),
            "host": host and host.as_dict(),
            "held": self.held,
            "largest_batch": self.largest_batch and asdict(self.largest_batch),
            "timeline": self.timeline(),
            "findings": [each.as_dict() for each in self.findings],
            "failure": self.failure,
            "crash": self.measured.crash and self.measured.crash.as_dict(),
            "overhead": self.overhead,
            "notes": self.measured.notes,
            "followed": self.measured.is_followed,
            "machine": self.measured.machine and self.measured.machine.as_dict(),
            "ranks": [{"rank": rank, "peaks": peaks} for rank, peaks in self.rank_peaks.items()],
        }

    def timeline(self) -> list[dict[str, Any]]:
        """Return what all processes had together over time, in seconds since the first look."""
        looks = self.measured.host.looks
        return [
            {
                "s": each.time_s - looks[0].time_s,
                "together_bytes": each.together,
                "shared_memory_bytes": each.shared_memory_bytes,
                "processes": {str(pid): memory.rss for pid, memory in each.processes.items()},
            }
            for each in looks
        ]

    def sources(self) -> dict[str, list[str]]:
        """Return the lines of each readable file that is named, by its path."""
        named = {each.file for each in self.findings} | {line.file for each in self.peaks for line in each.lines}
        return {path: lines for path in named if path and (lines := linecache.getlines(path))}


def _held(held: HeldObject) -> dict[str, Any]:
    """Return what something holds as plain values, with the line that fills it; 0 if that cannot be told."""
    function, file, line = object_filled_at(held)
    what = f"{held.container} of {held.dtype}, {' x '.join(map(str, held.shape))}" if held.dtype else held.container
    about = {"holder": held.holder, "what": what, "dtype": held.dtype, "length": held.length, "bytes": held.bytes}
    return {**about, "file": file, "line": line, "function": function}
