"""A run of a script in which every tensor is followed, in each step and each validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workshop.memory.device_peak import DevicePeak, device_peaks
from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_record import MemoryRecord, read_memory
from workshop.runs.measured_script import MeasuredScript
from workshop.runs.script import Say, run_folder

SETTLED = 4
"""Steps after which libraries have loaded what they need."""


@dataclass(frozen=True)
class FollowedRun:
    """What was seen of one."""

    record: MemoryRecord
    """Of the process that trains."""
    steps: int
    grown_bytes: int
    """How much more memory that process had than after its first steps, at most."""

    @property
    def peak(self) -> DevicePeak | None:
        """The peak of the device that has the highest one; None if no step was seen."""
        return max(device_peaks(self.record), key=lambda each: each.memory.peak_bytes, default=None)


def follow(command: Sequence[str], steps: int, say: Say) -> FollowedRun:
    """Run a script for so many steps, or until it ends, and follow its tensors.

    Args:
        command: the script and its arguments; it runs in an empty folder.
        steps: the number of steps of its optimizer.
        say: told of the progress.

    Raises:
        ScriptError: it broke, hung or ran away, or has ended before its first step.
    """
    with run_folder() as folder, MeasuredScript(command, folder, environment={"PYTHONUNBUFFERED": "1"}) as script:
        script.memory = script.every_step = True
        script.say = say
        say(f"following every tensor of {script.name}, for {steps} steps")
        script.start()
        host, taken, pid, settled_s = HostWatch(), 0, 0, None
        assert script.process
        with host.watching(script.process.pid):
            for report in script.reports():
                taken, pid = taken + report.steps, report.pid
                if settled_s is None and taken >= SETTLED:
                    settled_s = report.ended_s
                if taken >= steps:
                    break
        if not taken:
            raise script.ended("before its first step")
        return FollowedRun(read_memory(Path(folder), [pid]), taken, _grown_bytes(host, pid, settled_s))


def _grown_bytes(host: HostWatch, pid: int, since_s: float | None) -> int:
    """By how much more a process had at most than at a moment."""
    later = [
        each.processes[pid].anonymous
        for each in host.looks
        if since_s is not None and each.time_s >= since_s and pid in each.processes
    ]
    return max(later, default=0) - next(iter(later), 0)
