"""Makes the table of a segment: which tensors there were when there was most, and which are left in the end."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from workshop.probe.allocator_use import allocator_use
from workshop.probe.memory.memory_notes import FIRST_STEPS, MAX_POINTS, Group, TensorKind, TensorRow, TensorsOfDevice
from workshop.probe.memory.storage_lives import Life, StorageLives

CPU = "cpu"

Change = tuple[int, int]
"""A time in ns, and by how many bytes the sum changes."""


def highest(changes: Iterable[Change]) -> tuple[int, int]:
    """Return when a sum is highest, and how high: at its first change, unless it is higher later."""
    sums = list(accumulate(changes, lambda before, each: (each[0], before[1] + each[1])))
    return max(sums, key=lambda each: each[1], default=(0, 0))


class Peak(NamedTuple):
    """The moment when there was most on a device."""

    at_ns: int
    bytes: int
    changes: list[Change]
    """All changes of the sum, in order; the first is what there was before."""


class SegmentTable:
    """The lives of a segment, device by device.

    Args:
        lives: as they are at the end of the segment.
        allocated: the events of the allocator for the CPU, if it was asked.
        begun_ns: when the segment began.
        ended_ns: when it ended.
    """

    def __init__(self, lives: StorageLives, allocated: list[Change] | None, begun_ns: int, ended_ns: int) -> None:
        self._step, self._segment = lives.step, lives.segment
        self._begun_ns, self._ended_ns = begun_ns, ended_ns
        self._allocated = allocated
        self._by_device: defaultdict[str, list[Life]] = defaultdict(list)
        for each in (*lives.alive.values(), *lives.dead):
            self._by_device[each.device].append(each)
        self.peaks = {device: self._peak(device) for device in self._by_device}

    def _is_before(self, life: Life) -> bool:
        return life.segment != self._segment

    def _is_own(self, life: Life) -> bool:
        """Whether it was allocated in this segment: the allocator, if it was asked, tells of it."""
        return life.is_ours and not self._is_before(life)

    def _changes(self, lives: Iterable[Life], is_asked: bool) -> list[Change]:
        """The changes of a sum; if the allocator `is_asked`, without what it tells."""
        changes = []
        for each in lives:
            if not (is_asked and self._is_own(each)):
                changes.append((self._begun_ns if self._is_before(each) else each.born_ns, each.size))
                if each.died_ns:
                    changes.append((max(each.died_ns, self._begun_ns), -each.size))
        return changes

    def _peak(self, device: str) -> Peak:
        asked = self._allocated if device == CPU else None
        changes = self._changes(self._by_device[device], asked is not None)
        before = sum(size for at, size in changes if at <= self._begun_ns)
        later = sorted([*((at, size) for at, size in changes if at > self._begun_ns), *(asked or ())])
        changes = [(self._begun_ns, before), *later]
        return Peak(*highest(changes), changes)

    def _compared(self, device: str) -> tuple[int, int | None]:
        """The most that the tensors of the segment are, and what the allocator says at that moment."""
        own = [each for each in self._by_device[device] if self._is_own(each)]
        at_ns, most = highest([(self._begun_ns, 0), *sorted(self._changes(own, is_asked=False))])
        if device != CPU or self._allocated is None:
            return most, None
        return most, sum(size for when, size in self._allocated if when <= at_ns)

    def at_peak(self, device: str) -> list[Life]:
        """Return the storages that there were at the peak, those of the operator that was at work included."""
        at = self.peaks[device].at_ns
        return [each for each in self._by_device[device] if self._is_there(each, at)]

    def _is_there(self, life: Life, at_ns: int) -> bool:
        begin = self._begun_ns if self._is_before(life) else life.began_ns if life.is_ours else life.born_ns
        return begin <= at_ns and not 0 < life.died_ns <= at_ns

    def rows_at_peak(self) -> list[TensorRow]:
        """Return what there was at the peak of each device; the sum of the rows is the peak."""
        rows = []
        for device, peak in self.peaks.items():
            there = self.at_peak(device)
            left = peak.bytes - sum(each.size for each in there)
            if left < 0:  # the operator at work had not yet allocated what it returned
                there = [each for each in there if self._is_before(each) or each.born_ns <= peak.at_ns]
                left = peak.bytes - sum(each.size for each in there)
            rows += self._rows(there)
            if left > 0:
                stack = self._at_work(device, peak.at_ns)
                rows.append(TensorRow(device, TensorKind.SCRATCH, stack, "", left, 1, self._step, 0, 0, 0))
        return rows

    def _at_work(self, device: str, at_ns: int) -> int:
        """The stack of the operator that was at work, which is the next to return something."""
        later = [each for each in self._by_device[device] if each.is_ours and each.born_ns >= at_ns]
        return min(later, key=lambda each: each.born_ns).stack if later else -1

    def rows_at_end(self) -> list[TensorRow]:
        """Return what is left."""
        return [row for lives in self._by_device.values() for row in self._rows(_left(lives))]

    def _rows(self, lives: Iterable[Life]) -> list[TensorRow]:
        groups = defaultdict[Group, list[Life]](list)
        for each in lives:
            groups[each.group].append(each)
        return [self._row(*key, lives=of_key) for key, of_key in groups.items()]

    def _row(self, device: str, kind: str, stack: int, dtype: str, lives: list[Life]) -> TensorRow:
        older = [each for each in lives if self.is_older(each)]
        return TensorRow(
            device=device,
            kind=kind,
            stack=stack,
            dtype=dtype,
            bytes=sum(each.size for each in lives),
            count=len(lives),
            first_step=min(each.step for each in lives),
            older_bytes=sum(each.size for each in older),
            older_seen_bytes=sum(each.size for each in older if each.is_ours),
            older_steps=len({each.step for each in older if each.is_ours}),
        )

    def is_older(self, life: Life) -> bool:
        """Return whether a storage is left of an earlier step than the last one, but not of the first steps."""
        return FIRST_STEPS <= life.step <= self._step - 2

    def devices(self) -> list[TensorsOfDevice]:
        """Return the sums, and the curve, of each device."""
        found = []
        for device, peak in self.peaks.items():
            followed, said = self._compared(device)
            found.append(
                TensorsOfDevice(
                    device=device,
                    peak_bytes=peak.bytes,
                    end_bytes=sum(each.size for each in _left(self._by_device[device])),
                    allocator_bytes=said,
                    followed_bytes=followed,
                    curve=self._curve(peak),
                    free_bytes=_free_on(device),
                    allocator=allocator_use(device),
                )
            )
        return found

    def _curve(self, peak: Peak) -> tuple[tuple[float, int], ...]:
        """The largest sum in each of some spans of time."""
        span = max((self._ended_ns - self._begun_ns) // MAX_POINTS, 1)
        largest: dict[int, Change] = {}
        total = 0
        for when, size in peak.changes:
            total += size
            number = (when - self._begun_ns) // span
            if number not in largest or total > largest[number][1]:
                largest[number] = when, total
        points = [*sorted(largest.values()), (self._ended_ns, total)]
        return tuple(((when - self._begun_ns) / 1e9, sum_) for when, sum_ in points)

    def saved_without(self, device: str, removed: Collection[Life]) -> int:
        """Return by how much lower the peak of a device would be without some storages."""
        peak = self.peaks[device]
        less = [(when, -size) for when, size in self._changes(removed, is_asked=False)]
        first = sum(size for when, size in less if when <= self._begun_ns)
        later = sorted([*peak.changes[1:], *((when, size) for when, size in less if when > self._begun_ns)])
        return peak.bytes - highest([(self._begun_ns, peak.changes[0][1] + first), *later])[1]

    def select(self, device: str, wanted: Callable[[Life], bool]) -> list[Life]:
        """Return the storages of a device that are wanted, of the whole segment."""
        return [each for each in self._by_device[device] if wanted(each)]


def _free_on(device: str) -> int:
    if not device.startswith("cuda"):
        return 0
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + reserve)


def _left(lives: Sequence[Life]) -> list[Life]:
    return [each for each in lives if not each.died_ns]
