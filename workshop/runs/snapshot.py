"""A snapshot of a machine and the training runs on it: cores, memory, disk, GPUs, and each process.

It works on any machine: nvitop's own screen needs an NVIDIA driver.
"""

import os
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES
from workshop.runs.machine import gpus
from workshop.runs.process_tree import descendants

START = "python train.py configs/example_config.py"
LAUNCHERS = {"kernprof", "torchrun", "torch.distributed.run"}
"""The programs, and modules after `python -m`, that run the script they are given."""

TORCH_WORKER = "pt_data_worker"
"""The name that torch gives a process that runs the DataLoader's worker loop, on Linux."""

_ASKED = "name cmdline status cpu_times memory_info io_counters".split()
"""The attributes read of a process, where available; macOS does not count the bytes read."""

_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "torch_shm_manager")


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU; None stands for what its driver does not tell."""

    index: int
    name: str
    busy_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


@dataclass(frozen=True)
class ProcessFigures:
    """One process of a training run; None stands for what the system does not tell, or not yet.

    `cpu_percent` is 100 for one busy core. `rss_bytes` counts memory that processes share in each of them.
    `disk_read_bytes_per_s` leaves out what Linux had in memory already. `depth` is 0 for the root of a tree.
    """

    pid: int
    depth: int
    role: str
    status: str
    command: str
    cpu_percent: float | None
    rss_bytes: int | None
    disk_read_bytes_per_s: float | None
    gpu_memory_bytes: int | None


@dataclass(frozen=True)
class Snapshot:
    """The machine and the training runs on it, at one moment. Every root is followed by its descendants."""

    cores_percent: tuple[float | None, ...]
    memory_used_bytes: int
    memory_total_bytes: int
    disk_read_bytes_per_s: float | None
    disk_write_bytes_per_s: float | None
    gpus: tuple[Gpu, ...]
    processes: tuple[ProcessFigures, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


class Watch:
    """Takes snapshots, with rates since the snapshot before; the first one has none.

    Without `pids` it shows every Python of this user that runs a script, with its descendants, whatever the script is.

    Raises:
        WorkshopError: one of `pids` does not exist.
    """

    def __init__(self, pids: Sequence[int] | None) -> None:
        self._roots = None if pids is None else [_existing(pid) for pid in dict.fromkeys(pids)]
        self._devices = gpus()
        self._counters: dict[Hashable, tuple[float, float]] = {}  # when it was read in seconds, and what it showed
        self._counters_before: dict[Hashable, tuple[float, float]] = {}

    def snapshot(self) -> Snapshot:
        """Take one. psutil measures the cores since it was last asked in this thread, by any `Watch`."""
        self._counters_before, self._counters = self._counters, {}
        first = self._rate("snapshots", 0) is None
        busy: list[float] = psutil.cpu_percent(percpu=True)
        memory = psutil.virtual_memory()
        disk = None
        with suppress(NotImplementedError, PermissionError):
            disk = psutil.disk_io_counters()
        # In a container, the driver may name the pids of the machine around it.
        gpu_memory = Counter[int]()
        for device in self._devices:
            for pid, process in device.processes().items():
                gpu_memory[pid] += _known(process.gpu_memory()) or 0
        roots = _training_runs() if self._roots is None else self._roots
        return Snapshot(
            cores_percent=tuple(None if first else percent for percent in busy),
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            disk_read_bytes_per_s=self._rate("read", disk and disk.read_bytes),
            disk_write_bytes_per_s=self._rate("write", disk and disk.write_bytes),
            gpus=tuple(
                Gpu(
                    index=device.index,
                    name=str(device.name()),
                    busy_percent=_known(device.gpu_utilization()),
                    memory_used_bytes=_known(device.memory_used()),
                    memory_total_bytes=_known(device.memory_total()),
                )
                for device in self._devices
            ),
            processes=tuple(each for root in _topmost(roots) for each in self._tree(root, gpu_memory)),
        )

    def _tree(self, root: psutil.Process, gpu_memory: Mapping[int, int]) -> Iterator[ProcessFigures]:
        members = _members(root)
        roles = _roles(members)
        for member in members:
            process, told = member.process, member.told
            cpu, memory, read = told["cpu_times"], told["memory_info"], told.get("io_counters")
            cpu_rate = self._rate((process, "cpu"), cpu and cpu.user + cpu.system)
            yield ProcessFigures(
                pid=process.pid,
                depth=member.depth,
                role=roles[process.pid],
                status=str(told["status"]),
                command=_short(member.command) or told["name"],
                cpu_percent=None if cpu_rate is None else 100 * cpu_rate,
                rss_bytes=memory and memory.rss,
                disk_read_bytes_per_s=self._rate((process, "read"), read and read.read_bytes),
                gpu_memory_bytes=gpu_memory.get(process.pid),
            )

    def _rate(self, counter: Hashable, shows: float | None) -> float | None:
        """Return the growth of a counter in a second; None if it was not there before."""
        if shows is None:
            return None
        now = time.perf_counter()
        self._counters[counter] = (now, shows)
        if counter not in self._counters_before:
            return None
        then, showed = self._counters_before[counter]
        return max(shows - showed, 0) / (now - then)


@dataclass(frozen=True)
class _Member:
    """A process of a run; `forked` means that it runs under the command of its parent."""

    process: psutil.Process
    depth: int
    told: dict[str, Any]
    """What was asked of it, by the names in psutil; None for what the system does not tell."""
    command: list[str]
    forked: bool


def _training_runs() -> list[psutil.Process]:
    """Return the scripts of this user, except this process and those that started it."""
    me = psutil.Process()
    own = {me.pid, *(parent.pid for parent in me.parents())}
    user = me.username()
    return [
        process
        for process in psutil.process_iter(["username", "cmdline"])
        if process.pid not in own and process.info["username"] == user and runs_script(process.info["cmdline"] or [])
    ]


def runs_script(command: Sequence[str]) -> bool:
    """Return whether a command is a Python, kernprof or torchrun that runs a .py file; `python -m workshop` is not."""
    if not command:
        return False
    # -X and -W are followed by a value.
    words = [word for before, word in pairwise(command) if before not in ("-X", "-W") and not word.startswith("-")]
    if not Path(command[0]).name.lower().startswith("python"):
        words = [command[0], *words]
    if words and Path(words[0]).name in LAUNCHERS:
        return any(word.endswith(SCRIPT_SUFFIXES) for word in words[1:])
    return bool(words) and words[0].endswith(SCRIPT_SUFFIXES)


def _topmost(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that descend from none of the others, so that no process is shown twice."""
    pids = {process.pid for process in processes}
    roots = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if pids.isdisjoint(parent.pid for parent in process.parents()):
                roots.append(process)
    return roots


def _members(root: psutil.Process) -> list[_Member]:
    """Return a process and its descendants, each followed by its own descendants."""
    children: dict[int, list[psutil.Process]] = {}
    for process in sorted(descendants(root.pid), key=lambda each: each.pid):
        with suppress(psutil.NoSuchProcess):
            children.setdefault(process.ppid(), []).append(process)

    def walk(process: psutil.Process, depth: int, parent_command: list[str]) -> Iterator[_Member]:
        with suppress(psutil.NoSuchProcess):
            told = process.as_dict([name for name in _ASKED if hasattr(process, name)])
            command = told["cmdline"] or []
            # It may have ended, or another one may have its pid by now.
            if told["status"] != psutil.STATUS_ZOMBIE and process.is_running():
                yield _Member(process, depth, told, command, bool(command) and command == parent_command)
                for child in children.get(process.pid, []):
                    yield from walk(child, depth + 1, command)

    return list(walk(root, 0, []))


def _roles(members: Sequence[_Member]) -> dict[int, str]:
    """Return the role of each process, by pid; DataLoader workers are numbered by pid, mostly in the order of start.

    Where torch does not name its workers, every process that Python's multiprocessing started counts as one: it then
    cannot be told from a worker.
    """
    named = any(member.told["name"] == TORCH_WORKER for member in members)
    roles = {member.process.pid: _role(member, named) for member in members}
    workers = sorted(pid for pid, role in roles.items() if role == "worker")
    return roles | {pid: f"worker {number}" for number, pid in enumerate(workers)}


def _role(member: _Member, named: bool) -> str:
    if member.depth == 0:
        return "training"
    words = " ".join(member.command)
    started_by_multiprocessing = member.forked or "multiprocessing.spawn" in words
    if member.told["name"] == TORCH_WORKER or (started_by_multiprocessing and not named):
        return "worker"
    is_helper = not member.forked and any(helper in words for helper in _HELPERS)
    return "helper" if is_helper else "child"


def _existing(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except (psutil.NoSuchProcess, ValueError):  # the latter for one below 0
        raise WorkshopError(f"no process {pid}: leave the pid out to find the training run, or start {START}") from None


def _short(command: Sequence[str]) -> str:
    """Return a command on one line, with the last part of each full path."""
    return " ".join(" ".join(Path(word).name if os.path.isabs(word) else word for word in command).split())


def _known(answer: Any) -> int | None:
    """Return a number that nvitop gives, or None instead of its "N/A"."""
    return answer if isinstance(answer, int) else None
