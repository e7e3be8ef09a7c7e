"""The cores of this machine, as far as this process may use them."""

import os
from pathlib import Path


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def core_quota() -> float | None:
    """Return the number of cores' time that Linux' control groups, version 2, allow; None for no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def threads_each(processes: int) -> str:
    """Return a value for OMP_NUM_THREADS that shares the cores out, unless it is set already.

    By itself, torchrun gives each process a single thread.
    """
    return os.environ.get("OMP_NUM_THREADS", str(max(1, usable_cores() // processes)))
