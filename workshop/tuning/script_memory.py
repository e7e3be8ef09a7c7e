"""The memory of a script whose DataLoader is tuned: what its processes use, and what there is room for."""

from dataclasses import dataclass, replace

from workshop.probe.loader_settings import LoaderSettings
from workshop.runs.machine import free_memory, free_shared_memory
from workshop.runs.measured_script import MeasuredScript
from workshop.runs.measured_steps import MeasuredSteps
from workshop.runs.process_tree import descendants, memory_together, private_memory
from workshop.tuning.tried_settings import TriedSetting

USABLE_SHARE = 0.9
"""Share of the free memory, at most, that is used: a script may need more later."""


@dataclass(frozen=True)
class MemoryRoom:
    """The limits of memory, and what is known of the needs."""

    limit_bytes: float
    """What all processes of the script may use together."""
    used_bytes: float = 0.0
    """What they used when workers were last looked at, and with how many workers."""
    workers: int = 0
    worker_bytes: float = 0.0
    """What each further worker takes."""
    batch_bytes: float = 0.0
    shared_free_bytes: int | None = None
    """What is free of /dev/shm; None where there is none."""
    ranks: int = 1
    """Each of them has so many workers."""

    def after(self, tried: TriedSetting, private_bytes: int) -> "MemoryRoom":
        """Return what is known after settings were tried, whose largest worker had so many bytes of its own."""
        if tried.memory_bytes is None or not tried.settings.workers:
            return self
        worker_bytes = max(self.worker_bytes if self.workers else 0.0, private_bytes)
        return replace(self, used_bytes=tried.memory_bytes, workers=tried.settings.workers, worker_bytes=worker_bytes)

    def memory(self, settings: LoaderSettings) -> float:
        """Return the bytes that all processes will use."""
        batches = (settings.ahead - LoaderSettings(self.workers).ahead) * self.batch_bytes
        workers = (settings.workers - self.workers) * self.worker_bytes
        return self.used_bytes + self.ranks * (workers + max(0.0, batches))

    def shared(self, settings: LoaderSettings) -> int:
        """Return the bytes that batches take of /dev/shm at most: on their way, and two that the training holds."""
        return round(self.ranks * self.batch_bytes * (settings.ahead + 2)) if settings.workers else 0

    def why_not(self, settings: LoaderSettings) -> str:
        """Return why settings would not fit; empty if they do."""
        needed = self.shared(settings)
        if self.shared_free_bytes is not None and needed > USABLE_SHARE * self.shared_free_bytes:
            return f"needs {size(needed)} of /dev/shm, which has {size(self.shared_free_bytes)}"
        if settings.workers and self.memory(settings) > self.limit_bytes:
            return f"would need {size(self.memory(settings))} of memory, and {size(self.limit_bytes)} are allowed"
        return ""


class ScriptMemory:
    """Looks at the processes of a script, and learns from each trial what a worker takes.

    Args:
        script: the script, in its first run.
        steps: its steps as it is.
        start_method: how it starts workers; empty for the usual way.
        allowed_bytes: what all of its processes may use together; by default what the machine has.

    Attributes:
        room: what there is room for, as far as it is known.
    """

    def __init__(
        self, script: MeasuredScript, steps: MeasuredSteps, start_method: str, allowed_bytes: float | None = None
    ) -> None:
        self._script = script
        self.begin_run()
        trainers = self._trainers()
        free = memory_together(self._own) + USABLE_SHARE * free_memory()
        of_parent = 0.3 if start_method in ("", "fork") else 1.0  # what a worker writes to is its own
        self.room = MemoryRoom(
            limit_bytes=min(free, free if allowed_bytes is None else allowed_bytes),
            used_bytes=memory_together(self._own, self._own - trainers),
            worker_bytes=of_parent * max(map(private_memory, trainers), default=0),
            batch_bytes=steps.batch_bytes / max(1, steps.batches),
            shared_free_bytes=free_shared_memory(),
            ranks=max(1, len(script.trainers)),
        )

    def begin_run(self) -> None:
        """Take the processes that the script has now for its own: those that come later are workers of trials."""
        self._own = set(self._processes())

    def why_not(self, settings: LoaderSettings) -> str:
        """Return why there is no room for settings; empty if there is."""
        return self.room.why_not(settings)

    def look(self, tried: TriedSetting) -> None:
        """Note what the script uses while settings are tried, and what a worker takes."""
        processes = self._processes()
        tried.memory_bytes = memory_together(processes, self._own - self._trainers()) or None
        workers = [pid for pid in processes if pid not in self._own][:4]  # they are much alike
        self.room = self.room.after(tried, max(map(private_memory, workers), default=0))

    def _trainers(self) -> set[int]:
        return {pid for pids in self._script.trainers.values() for pid in pids}

    def _processes(self) -> list[int]:
        process = self._script.process
        return [process.pid, *(child.pid for child in descendants(process.pid))] if process else []


def size(count: float) -> str:
    """Return a number of bytes as a person reads it."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 or not count else f"{count / 1e6:.1f} MB"
