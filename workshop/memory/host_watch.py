"""Looks at the memory of all processes of a script again and again, from outside, as the kernel accounts for it."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psutil

from workshop.probe.memory.memory_notes import ProbeLook
from workshop.probe.memory.process_memory import rolled_up
from workshop.runs.again_and_again import again_and_again
from workshop.runs.machine import SHARED_MEMORY, free_memory
from workshop.runs.process_tree import descendants

FIELDS = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Anonymous", "Pss_Shmem")
"""What the kernel says of a process, by its own names."""


@dataclass(frozen=True)
class ProcessMemory:
    """What a process has in memory, in bytes."""

    rss: int
    pss: int
    """Its share: what processes have in common is divided among them."""
    private: int
    anonymous: int
    """What belongs to no file: its data, private and not."""
    shared_memory: int
    """Its share of what lies in `/dev/shm` and the like."""

    @property
    def shared(self) -> int:
        """What other processes have, too."""
        return self.rss - self.private

    def less(self, private: int) -> "ProcessMemory":
        """Return the same with so many bytes shared with other processes that are private."""
        return replace(self, pss=max(self.pss - private, 0), private=max(self.private - private, 0))


@dataclass(frozen=True)
class HostLook:
    """All processes of a run at one moment."""

    time_s: float
    """On the monotonic clock."""
    processes: dict[int, ProcessMemory]
    shared_memory_bytes: int
    """What has been added to `/dev/shm` since the script was started, by whichever program."""
    free_bytes: int

    def less(self, pid: int, private: int) -> "HostLook":
        """Return the same with so many bytes of a process shared with others that are private."""
        memory = self.processes.get(pid)
        return replace(self, processes={**self.processes, pid: memory.less(private)}) if memory else self

    @property
    def together(self) -> int:
        """What all processes have in memory, with what they share counted once."""
        return sum(each.pss for each in self.processes.values())


@dataclass
class HostWatch:
    """The looks, in order."""

    looks: list[HostLook] = field(default_factory=list)
    shared_memory_before: int = 0

    @contextmanager
    def watching(self, pid: int) -> "Iterator[HostWatch]":
        """Look at a process and all below it until the block ends."""
        self.shared_memory_before = _used_shared_memory()
        with again_and_again(lambda: self._look(pid), every_s=0.5):
            yield self

    def _look(self, pid: int) -> None:
        found = {}
        for each in [pid, *(child.pid for child in descendants(pid))]:
            if memory := process_memory(each):
                found[each] = memory
        if found:
            more = _used_shared_memory() - self.shared_memory_before
            self.looks.append(HostLook(time.monotonic(), found, max(more, 0), free_memory()))

    def without(self, looks: Sequence[ProbeLook]) -> "HostWatch":
        """Return the same without what looking for holders has made private to a process that shares it otherwise.

        This holds until another process begins or ends: then other memory is shared.
        """
        left = [each for each in self.looks if not any(it.began_s <= each.time_s <= it.t for it in looks)]
        for it in looks:
            after = [number for number, each in enumerate(left) if each.time_s > it.t]
            pids = [left[number].processes.keys() for number in after]
            for number in after[: next((at for at, each in enumerate(pids) if each != pids[0]), len(after))]:
                left[number] = left[number].less(it.pid, it.own_bytes)
        return HostWatch(left, self.shared_memory_before)

    @property
    def most(self) -> HostLook | None:
        """The look with the most memory together; None if there was no look."""
        return max(self.looks, key=lambda each: each.together, default=None)

    @property
    def most_bytes(self) -> int:
        """What all processes had together in that look; 0 if there was none."""
        return self.most.together if self.most else 0


def process_memory(pid: int) -> ProcessMemory | None:
    """Return what a process has in memory; None if it is gone, or has nothing, as one that nobody has waited for."""
    try:
        if not (sizes := rolled_up(pid)):
            return _by_psutil(pid)
    except (OSError, ValueError):
        return None
    rss, pss, clean, dirty, anonymous, shmem = (sizes.get(each, 0) for each in FIELDS)
    return ProcessMemory(rss, pss, clean + dirty, anonymous, shmem) if rss else None


def _by_psutil(pid: int) -> ProcessMemory | None:
    """The same where the kernel has no such file, as on a Mac."""
    try:
        used = psutil.Process(pid).memory_full_info()
    except (psutil.Error, OSError):
        return None
    pss = getattr(used, "pss", used.uss)
    return ProcessMemory(used.rss, pss, used.uss, used.uss, 0)


def _used_shared_memory() -> int:
    return shutil.disk_usage(SHARED_MEMORY).used if SHARED_MEMORY.is_dir() else 0
