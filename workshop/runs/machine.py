"""What this machine has for a run: cores, memory, NVIDIA GPUs, and the commands installed along with the workshop."""

import contextlib
import io
import os
import platform
import resource
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import psutil

from workshop.probe.own_limits import free_in_groups, usable_cores

SHARED_MEMORY = Path("/dev/shm")
"""Where the processes of torch hand tensors over, on Linux."""


def processor() -> str:
    """Return the name of the processor, or else the kind of it, such as "arm64"."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def most_processes() -> int:
    """Return a number of processes that no training with ranks and workers for each core comes near."""
    enough = max(1000, 50 * (os.cpu_count() or 1))
    allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return enough if allowed == resource.RLIM_INFINITY else min(enough, allowed // 2)


def core_quota() -> float | None:
    """Return the number of cores' time that Linux' control groups, version 2, allow; None for no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def group_seconds() -> float | None:
    """Return the CPU time of all processes under the same `core_quota` so far; None where that is not told."""
    try:
        words = Path("/sys/fs/cgroup/cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) / 1e6
    except (OSError, ValueError, IndexError):
        return None


def free_memory(root: Path = Path("/")) -> int:
    """Return how many more bytes this process and its children may use, as the machine and its control groups say."""
    available: int = psutil.virtual_memory().available
    free = free_in_groups(root)
    return available if free is None else min(available, free)


def free_shared_memory(folder: Path = SHARED_MEMORY) -> int | None:
    """Return how many bytes are free where tensors are handed over; None where there is no such place."""
    return shutil.disk_usage(folder).free if folder.is_dir() else None


def threads_each(processes: int) -> str:
    """Return the OMP_NUM_THREADS of each of several processes that share the cores, unless the environment has one."""
    return os.environ.get("OMP_NUM_THREADS", str(max(1, usable_cores() // processes)))


def gpus() -> list[Any]:
    """Return the GPUs as nvitop knows them; without an NVIDIA driver there are none."""
    import nvitop

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # NVML complains there that it is not installed
            return list(nvitop.Device.all())
    except nvitop.NVMLError:
        return []


def find_executable(name: str) -> str | None:
    """Return the path of the command installed for this very Python; else of the first on the path, if there is one."""
    return own_executable(name) or shutil.which(name)


def own_executable(name: str) -> str | None:
    """Return the path of the command installed for this very Python, if there is one."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))
