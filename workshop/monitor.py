"""A live picture of a training run: cores, memory, disk, GPUs, and each of its processes.

It works on any machine: nvitop's own screen needs an NVIDIA driver.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import psutil
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from workshop import nvidia
from workshop.errors import WorkshopError

START = "python train.py configs/example_config.py"
LAUNCHERS = {"kernprof", "torchrun", "torch.distributed.run"}
"""Programs, and modules after `python -m`, that run the script they are given."""

TORCH_WORKER = "pt_data_worker"
"""What torch calls a process that runs the DataLoader's worker loop, where the system is Linux."""

_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "torch_shm_manager")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU; None stands for what its driver does not tell."""

    index: int
    name: str
    busy_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


@dataclass(frozen=True)
class Process:
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
    processes: tuple[Process, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)


class Watch:
    """Takes snapshots. Rates are since the snapshot before; the first one starts the measurement and has none.

    Without `pids` it shows every training run of this user: a Python that runs a script, with its descendants. What
    the script does is not looked at: an editor's helper that is such a script shows up, too.

    Raises:
        WorkshopError: one of `pids` does not exist.
    """

    def __init__(self, pids: Sequence[int] | None) -> None:
        self._roots = None if pids is None else [_existing(pid) for pid in dict.fromkeys(pids)]
        self._devices = nvidia.devices()
        self._counters: dict[Hashable, tuple[float, float]] = {}  # when it was read in seconds, and what it showed
        self._counters_before: dict[Hashable, tuple[float, float]] = {}

    def snapshot(self) -> Snapshot:
        """What there is now. psutil measures the cores since it was last asked in this thread, by any `Watch`."""
        self._counters_before, self._counters = self._counters, {}
        first = self._rate("snapshots", 0) is None
        busy: list[float] = psutil.cpu_percent(percpu=True)
        memory = psutil.virtual_memory()
        disk = _answer(psutil.disk_io_counters)
        gpu_memory = self._gpu_memory_bytes()
        roots = _training_runs() if self._roots is None else self._roots
        return Snapshot(
            cores_percent=tuple(None if first else percent for percent in busy),
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            disk_read_bytes_per_s=self._rate("read", disk and disk.read_bytes),
            disk_write_bytes_per_s=self._rate("write", disk and disk.write_bytes),
            gpus=tuple(_gpu(device) for device in self._devices),
            processes=tuple(each for root in _topmost(roots) for each in self._tree(root, gpu_memory)),
        )

    def _tree(self, root: psutil.Process, gpu_memory: dict[int, int]) -> Iterator[Process]:
        members = _members(root)
        roles = _roles(members)
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield self._process(member, roles[member.process.pid], gpu_memory)

    def _process(self, member: "_Member", role: str, gpu_memory: dict[int, int]) -> Process:
        process = member.process
        with process.oneshot():
            cpu = _answer(process.cpu_times)
            memory = _answer(process.memory_info)
            # macOS does not count it.
            io_counters = _answer(process.io_counters) if hasattr(process, "io_counters") else None
            cpu_rate = self._rate((process, "cpu"), cpu and cpu.user + cpu.system)
            return Process(
                pid=process.pid,
                depth=member.depth,
                role=role,
                status=str(process.status()),
                command=_short(member.command) or member.name,
                cpu_percent=None if cpu_rate is None else 100 * cpu_rate,
                rss_bytes=memory and memory.rss,
                disk_read_bytes_per_s=self._rate((process, "read"), io_counters and io_counters.read_bytes),
                gpu_memory_bytes=gpu_memory.get(process.pid),
            )

    def _rate(self, counter: Hashable, shows: float | None) -> float | None:
        """What a counter grew by a second; None if it was not there before."""
        if shows is None:
            return None
        now = time.perf_counter()
        self._counters[counter] = (now, shows)
        if counter not in self._counters_before:
            return None
        then, showed = self._counters_before[counter]
        return max(shows - showed, 0) / (now - then)

    def _gpu_memory_bytes(self) -> dict[int, int]:
        """By pid. In a container the driver may name pids of the machine around it, which match none in here."""
        used: dict[int, int] = {}
        for device in self._devices:
            for pid, process in device.processes().items():
                used[pid] = used.get(pid, 0) + (_known(process.gpu_memory()) or 0)
        return used


@dataclass(frozen=True)
class _Member:
    """What tells the role of a process; `forked` means that it runs under the command of its parent."""

    process: psutil.Process
    depth: int
    name: str
    command: list[str]
    forked: bool


def monitor(pids: Sequence[int] | None, interval_s: float, once: bool, console: Console) -> None:
    """Show the picture until Ctrl-C; once, after an interval, if asked to or if there is no terminal to draw on.

    Raises:
        WorkshopError: one of `pids` does not exist.
    """
    watch = Watch(pids)
    if once or not console.is_terminal or console.is_dumb_terminal:
        watch.snapshot()
        time.sleep(interval_s)
        console.print(render(watch.snapshot(), console.width))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(render(watch.snapshot(), console.width), refresh=True)
            time.sleep(interval_s)


def render(snapshot: Snapshot, width: int) -> RenderableType:
    """The picture, no line longer than `width`; 80 columns show all of it but long commands."""
    lines = [*_core_lines(snapshot.cores_percent, width), *_machine_lines(snapshot)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    if not snapshot.processes:
        return Group(*lines, Text(f"\nNo training run. Start the training in another terminal:\n  {START}"))
    note = "cpu: 100 % is one core. RSS: memory; what processes share counts in each."
    return Group(*lines, Text(), _process_table(snapshot, width), Text(note, "dim", overflow="ellipsis", no_wrap=True))


def _core_lines(cores_percent: Sequence[float | None], width: int) -> list[Text]:
    """With more than 32 cores there is no room for bars, and the percents stand alone."""
    columns = 2 if len(cores_percent) <= 8 else 4 if len(cores_percent) <= 32 else 8
    bar_width = (width - 8) // columns - 9
    cells = [
        Text(f"{core:3} ").append_text(_bar(percent, 100, bar_width)).append(f"{_figure(percent):>4}%")
        for core, percent in enumerate(cores_percent)
    ]
    starts = range(0, len(cells), columns)
    return [
        Text(" " * 8 if start else "cores   ").append_text(Text().join(cells[start : start + columns]))
        for start in starts
    ]


def _machine_lines(snapshot: Snapshot) -> list[Text]:
    used, total = snapshot.memory_used_bytes, snapshot.memory_total_bytes
    read = _figure(snapshot.disk_read_bytes_per_s, 1e6, 1)
    write = _figure(snapshot.disk_write_bytes_per_s, 1e6, 1)
    return [
        Text("memory  ").append_text(_bar(used, total, 27)).append(f"  {used / 2**30:.1f} of {total / 2**30:.1f} GiB"),
        Text(f"disk    read {read} MB/s, write {write} MB/s"),
        *(_gpu_line(gpu) for gpu in snapshot.gpus),
    ]


def _gpu_line(gpu: Gpu) -> Text:
    used, total = _figure(gpu.memory_used_bytes, 2**30, 1), _figure(gpu.memory_total_bytes, 2**30, 1)
    line = Text(f"GPU {gpu.index:<3} ").append_text(_bar(gpu.busy_percent, 100, 27))
    return line.append(f"{_figure(gpu.busy_percent):>4}%  {used} of {total} GiB  {gpu.name}")


def _process_table(snapshot: Snapshot, width: int) -> Table:
    """The column of the GPUs is there only if they are."""
    table = Table(box=None, width=width, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    # The widths are the least, so that columns stay where they are as figures grow.
    table.add_column("pid", justify="right", min_width=7)
    table.add_column("role", no_wrap=True, min_width=10)
    for heading in ("cpu %", "RSS MiB", "read MB/s", *(["GPU MiB"] if snapshot.gpus else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True, min_width=10)
    table.add_column("command", no_wrap=True, overflow="ellipsis", ratio=1)
    for process in snapshot.processes:
        figures = [
            _figure(process.cpu_percent),
            _figure(process.rss_bytes, 2**20),
            _figure(process.disk_read_bytes_per_s, 1e6, 1),
            _figure(process.gpu_memory_bytes, 2**20),
        ]
        role = "  " * (process.depth - 1) + "└ " * (process.depth > 0) + process.role
        shown = figures if snapshot.gpus else figures[:-1]
        table.add_row(str(process.pid), role, *shown, process.status, Text(process.command))
    return table


def _bar(value: float | None, full: float, width: int) -> Text:
    filled = min(max(round((value or 0) / full * width), 0), width)
    return Text("█" * filled, "cyan").append("░" * (width - filled), "dim")


def _figure(value: float | None, unit: float = 1, digits: int = 0) -> str:
    return "-" if value is None else f"{value / unit:.{digits}f}"


def _training_runs() -> list[psutil.Process]:
    """This user's scripts, other than this process and those that started it."""
    me = psutil.Process()
    own = {me.pid, *(parent.pid for parent in me.parents())}
    user = me.username()
    return [
        process
        for process in psutil.process_iter(["username", "cmdline"])
        if process.pid not in own and process.info["username"] == user and runs_script(process.info["cmdline"] or [])
    ]


def runs_script(command: Sequence[str]) -> bool:
    """Whether this is a Python, kernprof or torchrun that runs a .py file. `python -m workshop` is not."""
    if not command:
        return False
    # -X and -W are followed by a value.
    words = [word for before, word in pairwise(command) if before not in ("-X", "-W") and not word.startswith("-")]
    if not Path(command[0]).name.lower().startswith("python"):
        words = [command[0], *words]
    if words and Path(words[0]).name.removesuffix(".exe") in LAUNCHERS:
        return any(word.endswith(".py") for word in words[1:])
    return bool(words) and words[0].endswith(".py")


def _topmost(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that descend from none of the others, so that no process is shown twice."""
    pids = {process.pid for process in processes}
    roots = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if pids.isdisjoint(parent.pid for parent in process.parents()):
                roots.append(process)
    return roots


def _members(root: psutil.Process) -> list[_Member]:
    """A process and its descendants, each followed by its own; those that have ended are left out."""
    children: dict[int, list[psutil.Process]] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in sorted(root.children(recursive=True), key=lambda each: each.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                children.setdefault(process.ppid(), []).append(process)

    def walk(process: psutil.Process, depth: int, parent_command: list[str]) -> Iterator[_Member]:
        with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
            command = _answer(process.cmdline) or []
            if process.is_running():  # another one may have its pid by now
                yield _Member(process, depth, process.name(), command, bool(command) and command == parent_command)
                for child in children.get(process.pid, []):
                    yield from walk(child, depth + 1, command)

    return list(walk(root, 0, []))


def _roles(members: Sequence[_Member]) -> dict[int, str]:
    """Roles by pid; DataLoader workers are numbered by pid, which is mostly, but not always, the order of their start.

    Where torch does not name its workers, every process that Python's multiprocessing started counts as one: it then
    cannot be told from a worker.
    """
    named = any(member.name == TORCH_WORKER for member in members)
    roles = {member.process.pid: _role(member, named) for member in members}
    workers = sorted(pid for pid, role in roles.items() if role == "worker")
    return roles | {pid: f"worker {number}" for number, pid in enumerate(workers)}


def _role(member: _Member, named: bool) -> str:
    if member.depth == 0:
        return "training"
    words = " ".join(member.command)
    started_by_multiprocessing = member.forked or "multiprocessing.spawn" in words
    if member.name == TORCH_WORKER or (started_by_multiprocessing and not named):
        return "worker"
    is_helper = not member.forked and any(helper in words for helper in _HELPERS)
    return "helper" if is_helper else "child"


def _existing(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except (psutil.NoSuchProcess, ValueError):  # the latter for one below 0
        raise WorkshopError(f"no process {pid}: leave the pid out to find the training run, or start {START}") from None


def _answer(ask: Callable[[], _T]) -> _T | None:
    """None where the system does not tell this user."""
    try:
        return ask()
    except (psutil.AccessDenied, PermissionError, NotImplementedError):
        return None


def _short(command: Sequence[str]) -> str:
    """A command on one line, in which full paths are their last part alone."""
    return " ".join(" ".join(Path(word).name if os.path.isabs(word) else word for word in command).split())


def _gpu(device: Any) -> Gpu:
    return Gpu(
        index=device.index,
        name=str(device.name()),
        busy_percent=_known(device.gpu_utilization()),
        memory_used_bytes=_known(device.memory_used()),
        memory_total_bytes=_known(device.memory_total()),
    )


def _known(answer: Any) -> int | None:
    """None instead of nvitop's "N/A"."""
    return answer if isinstance(answer, int) else None
