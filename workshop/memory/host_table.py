"""The processes of a run with their memory: the training, each worker, and what they share."""

from dataclasses import asdict, dataclass
from typing import Any

from workshop.memory.growth import settled_s
from workshop.memory.host_watch import ProcessMemory
from workshop.memory.memory_run import MeasuredMemory

TRAINING, WORKER, OTHER = "training", "worker", "other"


@dataclass(frozen=True)
class HostProcess:
    """A process at the moment when all together had most."""

    pid: int
    role: str
    """"training", "worker" or "other"; in a run with several ranks, "rank 1"."""
    memory: ProcessMemory
    grown_bytes: int
    """How much more was private to it in the end than once it had settled; of a worker, than when it was first seen."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "pid": self.pid,
            "role": self.role,
            **asdict(self.memory),
            "shared": self.memory.shared,
            "grown_bytes": self.grown_bytes,
        }


@dataclass(frozen=True)
class HostTable:
    """All processes at that moment."""

    processes: tuple[HostProcess, ...]
    together_bytes: int
    """What they had together, with what they share counted once."""
    shared_memory_bytes: int
    """The most that was added to `/dev/shm`."""
    prefetched_bytes: int
    """What workers may have loaded ahead: their number, times batches ahead, times the size of a batch."""
    free_bytes: int
    """The least that was free meanwhile."""

    @property
    def workers(self) -> list[HostProcess]:
        """The workers."""
        return [each for each in self.processes if each.role == WORKER]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "processes": [each.as_dict() for each in self.processes]}


def host_table(measured: MeasuredMemory) -> HostTable | None:
    """Return the table; None if no process was ever looked at."""
    most = measured.host.most
    if most is None:
        return None
    processes = [
        HostProcess(pid, _role(measured, pid), memory, grown_bytes(measured, pid))
        for pid, memory in most.processes.items()
    ]
    return HostTable(
        processes=tuple(
            sorted(processes, key=lambda each: (each.role == OTHER, each.role == WORKER, each.role, each.pid))
        ),
        together_bytes=most.together,
        shared_memory_bytes=max(each.shared_memory_bytes for each in measured.host.looks),
        prefetched_bytes=prefetched_bytes(measured),
        free_bytes=min(each.free_bytes for each in measured.host.looks),
    )


def prefetched_bytes(measured: MeasuredMemory) -> int:
    """Return how much the workers of the training's DataLoader may have loaded ahead."""
    loader = measured.record.loader
    batch = max((each.batch_bytes for each in measured.record.training), default=0)
    return loader.settings.ahead * batch if loader else 0


def _role(measured: MeasuredMemory, pid: int) -> str:
    records = [measured.record, *measured.ranks.values()]
    if any(pid in each.workers for each in records):
        return WORKER
    rank = next((rank for rank, pids in measured.rank_pids.items() if pid in pids), None)
    if rank is not None and measured.ranks:
        return f"rank {rank}"
    return TRAINING if pid in measured.trainers else OTHER


def grown_bytes(measured: MeasuredMemory, pid: int) -> int:
    """Return how much more is private to a process in the end.

    What workers grow by counts from the beginning; of others, what they import and build at first is no growth.
    """
    is_worker = _role(measured, pid) == WORKER
    begin_s = 0.0 if is_worker else settled_s(measured.reports)
    looks = [each for each in measured.host.looks if each.time_s >= begin_s]
    private = [each.processes[pid].private for each in looks if pid in each.processes]
    return private[-1] - private[0] if private else 0
