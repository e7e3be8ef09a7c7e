"""The memory of a script whose DataLoader is tuned: what its processes use, and what there is room for."""

from workshop.diagnosis.measurement import MeasuredSteps
from workshop.diagnosis.staged_run import MeasuredScript
from workshop.probe.loader_settings import LoaderSettings
from workshop.runs.memory_use import free_memory, free_shared_memory, memory_together, private_memory
from workshop.runs.process_tree import descendants
from workshop.tuning.memory_room import FORKED, RESERVE, Room
from workshop.tuning.tried_setting import TriedSetting

LOOKED_AT = 4
"""The memory of no more workers than this is looked at: they are much alike."""


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
        free = memory_together(self._own) + (1 - RESERVE) * free_memory()
        of_parent = FORKED if start_method in ("", "fork") else 1.0
        self.room = Room(
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
        private = [private_memory(pid) for pid in processes if pid not in self._own][:LOOKED_AT]
        self.room = self.room.after(tried, max(private, default=0))

    def _trainers(self) -> set[int]:
        return {pid for pids in self._script.trainers.values() for pid in pids}

    def _processes(self) -> list[int]:
        process = self._script.process
        return [process.pid, *(each.pid for each in descendants(process.pid))] if process else []
