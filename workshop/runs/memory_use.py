"""The memory that processes use together, and the memory that they may use."""

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from workshop.probe.own_limits import free_in_groups

SHARED_MEMORY = Path("/dev/shm")
"""Where the processes of torch hand tensors over, on Linux."""


def memory_together(pids: Collection[int], without: Collection[int] = ()) -> int:
    """Return the bytes that processes use together; what they share is counted once.

    Args:
        pids: the processes; those that are gone use nothing.
        without: those of them that would not be there: what they share with the others stays.
    """
    total = 0
    for pid in pids:
        with suppress(psutil.Error, OSError):
            used = psutil.Process(pid).memory_full_info()
            total += getattr(used, "pss", used.uss) - (used.uss if pid in without else 0)
    return total


def private_memory(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except (psutil.Error, OSError):
        return 0


def free_memory(root: Path = Path("/")) -> int:
    """Return how many more bytes this process and its children may use, as the machine and its control groups say."""
    available: int = psutil.virtual_memory().available
    free = free_in_groups(root)
    return available if free is None else min(available, free)


def free_shared_memory(folder: Path = SHARED_MEMORY) -> int | None:
    """Return how many bytes are free where tensors are handed over; None where there is no such place."""
    return shutil.disk_usage(folder).free if folder.is_dir() else None
