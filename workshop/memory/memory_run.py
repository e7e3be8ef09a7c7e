"""Runs of a script in which its memory is measured: led through stages, or followed for some steps."""

import math
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from workshop.errors import WorkshopError
from workshop.memory.host_watch import HostWatch
from workshop.memory.memory_lines import DevicePeak, device_peaks
from workshop.memory.memory_record import MemoryRecord, read_memory
from workshop.probe.messages import AsItIs, LookForHolders, StepReport, TouchDatasets, TryCheckpoints
from workshop.runs.measured_script import MeasuredScript
from workshop.runs.measured_steps import MeasuredSteps, Stage
from workshop.runs.other_load import OtherLoad
from workshop.runs.script import Say, run_folder
from workshop.runs.script_error import ScriptError
from workshop.runs.staged_run import WARM_UP_STEPS, StagedRun, led, too_early

EARLY = 0.25
"""Share of the time after which holders are looked for first: the script may end before the rest is over."""

KILLED = {
    "a worker of a DataLoader": r"DataLoader worker \(pid \d+\) is killed by signal: Killed",
    "a rank": r"(?s)Root Cause .*?exitcode +: -9\b",
}
"""What is printed by torch, and by torchrun, if the system has killed a process of the script."""

LAST_STEPS, LAST_S = 2, 30.0
"""Steps for which holders are looked for, and seconds that they may take, at most."""

ENOUGH_STEPS, BEFORE_END = 10, 4
"""Steps of an epoch that are over, or half of it, and still to come, at least, when holders are looked for last:
what is kept until its end, such as a list of outputs, is little at its beginning."""

SETTLED = 4
"""Steps after which libraries have loaded what they need."""


@dataclass
class MeasuredMemory:
    """What was measured of a script's memory."""

    record: MemoryRecord
    """Of the first process that has trained."""
    host: HostWatch
    reports: list[StepReport]
    """The steps of that process, all of them."""
    steps: MeasuredSteps | None
    trainers: list[int]
    """The processes that have trained."""
    ranks: dict[int, MemoryRecord] = field(default_factory=dict)
    """The same of each rank, if there are several."""
    rank_pids: dict[int, list[int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """The first one says that the machine was busy, if it was."""
    machine: OtherLoad | None = None
    """What other programs used of the cores meanwhile."""
    killed: str = ""
    """How the script was ended by the system, such as "was killed by SIGKILL after 30 steps"; empty if not."""
    crash: ScriptError | None = None
    """How it has ended with an error, whatever the reason; None if it has not."""
    is_followed: bool = True
    """Whether a script was followed; else this was read from a file."""


def measure_memory(
    script: str, arguments: list[str], seconds: float, say: Say = print, is_module: bool = False, trials: bool = True
) -> MeasuredMemory:
    """Run a script until its memory has been measured, then end it.

    It is started as by `led`. Its steps are watched for `seconds`; then `trials` on copies show what would need less.

    Raises:
        WorkshopError: there is no such script, or no training step was seen.
        ScriptError: it broke before anything was measured, and not for want of memory.
    """
    then = f"it takes about {seconds:.0f} s"
    with led(script, arguments, is_module, say, then, memory=True) as (run, load):
        host, process = HostWatch(), run.script.process
        assert process
        with host.watching(process.pid):
            reports = _in_stages(run, seconds)
        if trials:
            _try(run)  # what the copies take is not the script's own
        found, machine = _measured(run, host, reports, script), load.end()
        return replace(found, machine=machine, notes=(*[str(machine)] * machine.busy, *found.notes))


def _in_stages(run: StagedRun, seconds: float) -> list[StepReport]:
    reports: list[StepReport] = []
    run.take(WARM_UP_STEPS)
    for part_s, is_last in ((EARLY * seconds, False), ((1 - EARLY) * seconds, True)):
        if not run.ended:
            run.script.tell(f"watching its memory for {part_s:.0f} s")
            stage = run.measure(AsItIs(), part_s)
            reports += stage.reports if stage else []
        if not run.ended:
            run.script.tell("looking for who holds what")
            if is_last:
                _go_into_epoch(run)
            run.go_to(LookForHolders())
            run.take(LAST_STEPS, LAST_S)
    return reports


def _go_into_epoch(run: StagedRun) -> None:
    """Let steps go by until it can be seen what an epoch collects."""
    most_steps, give_up_s = run.seen + 2 * ENOUGH_STEPS, monotonic() + LAST_S
    while not run.ended and run.seen < most_steps and monotonic() < give_up_s:
        length = run.epoch_steps or math.inf
        if min(ENOUGH_STEPS, length // 2) <= run.in_epoch <= max(length - BEFORE_END, length // 2):
            return
        run.report()


def _try(run: StagedRun) -> None:
    if not run.ended:
        run.script.tell("trying what would need less")
        for each in (TouchDatasets(), TryCheckpoints()):
            if not run.ended:
                run.go_to(each)
        run.take(LAST_STEPS, LAST_S)


def _measured(run: StagedRun, host: HostWatch, reports: list[StepReport], script: str) -> MeasuredMemory:
    """Put together what was measured, also if the script was ended for want of memory."""
    folder, trainers = run.script.folder, run.script.trainers
    pids = [pid for of_rank in trainers.values() for pid in of_rank]
    pids = pids or [next(iter(look.processes)) for look in host.looks[:1]]
    records = {rank: read_memory(folder, of_rank) for rank, of_rank in trainers.items()} or {
        0: read_memory(folder, pids)
    }
    lead = run.lead if run.lead in records else min(records)
    failed = next((rank for rank, each in records.items() if each.failed), None)
    if failed is not None and failed != lead:
        lead, reports = failed, [each for each in run.others[failed] if each.stage == AsItIs()]
    record, error = records[lead], run.error
    killed = _killed(error) if error else ""
    if error and not (killed or record.failed) and not reports:
        raise error
    if not reports and not record.segments:
        if run.interrupted:
            raise KeyboardInterrupt
        raise error or WorkshopError(f"{script} ended {too_early(run)}")
    notes: list[str] = []
    if run.interrupted:
        notes.append("Stopped by Ctrl-C: this is what was seen until then.")
    if record.lost:
        notes.append(f"Part of what the script did could not be recorded: {record.lost}.")
    if record.last is None and not run.interrupted:
        notes.append("The script ended before holders were looked for; let it train for longer.")
    notes += record.of_allocators
    return MeasuredMemory(
        record=record,
        host=host.without([look for each in records.values() for look in each.probe_looks]),
        reports=reports,
        steps=Stage(reports).together if reports else None,
        trainers=pids,
        ranks=records if len(records) > 1 else {},
        rank_pids=dict(trainers),
        notes=tuple(notes),
        killed=killed,
        crash=error,
    )


def _killed(error: ScriptError) -> str:
    """How the system has ended the script, or one of its processes without which it could not go on; empty if not."""
    if error.exit_code == -signal.SIGKILL:
        return error.how
    who = next((who for who, says in KILLED.items() if re.search(says, error.output)), "")
    return f"{error.how}, as {who} was killed by SIGKILL" if who else ""


# Part 12: every tensor is followed, in each step and each validation


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
        host, taken, pid, settled_s = HostWatch(), 0, 0, 0.0
        assert script.process
        with host.watching(script.process.pid):
            for report in script.reports():
                taken, pid = taken + report.steps, report.pid
                if not settled_s and taken >= SETTLED:
                    settled_s = report.ended_s
                if taken >= steps:
                    break
        if not taken:
            raise script.ended("before its first step")
        return FollowedRun(read_memory(Path(folder), [pid]), taken, _grown_bytes(host, pid, settled_s))


def _grown_bytes(host: HostWatch, pid: int, since_s: float) -> int:
    """By how much more a process had at most than at a moment, if that came."""
    looks = (each for each in host.looks if since_s and each.time_s >= since_s and pid in each.processes)
    later = [each.processes[pid].anonymous for each in looks]
    return max(later, default=0) - next(iter(later), 0)
