"""torch.profiler around a command: it records each process that trains, without an edit to its script."""

import os
import shlex
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from workshop.errors import CrashError, WorkshopError
from workshop.probe import wire
from workshop.probe.settings import PROFILER_VARIABLE, REPORTS, ProfilerOptions, ProfilerReport
from workshop.recording.output_paths import TRACES, free_folder
from workshop.recording.run import RecordedRun, Run, as_command, job_script
from workshop.runs import load_beside
from workshop.runs.script import Say, probe_environment
from workshop.runs.script_error import describe_activities

SETTLED_S = 2.0
"""Seconds, at least, without another trace: then none will come."""

STOP_PATIENCE_S = 20.0
"""Seconds, at most, that a training that should stop still runs once the last trace is written: then it is ended."""


@dataclass(frozen=True)
class RecordedTraces(RecordedRun):
    """The traces of a run, and how it ended."""

    folder: Path
    traces: list[Path]


def record(command: list[str], options: ProfilerOptions, say: Say = lambda _: None) -> RecordedTraces:
    """Run a script, or any command that starts Python, such as torchrun, and record each process of it that trains.

    Raises:
        WorkshopError: there is no such command, the folder cannot be made, or too little was trained to be recorded.
        CrashError: it crashed before.
    """
    command = as_command(command)
    folder = free_folder(Path(options.prof_dir))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"cannot make the folder {folder}: {error.strerror}"
        raise WorkshopError(f"{problem}; name another with --prof-dir") from None
    with tempfile.TemporaryDirectory(prefix="workshop-traces-") as run_folder:
        report = Path(run_folder, REPORTS)
        recorded = replace(options, prof_dir=str(folder.resolve()), folder=run_folder)
        environment = {PROFILER_VARIABLE: wire.encode(recorded), **probe_environment()}
        environment["KINETO_LOG_LEVEL"] = os.environ.get("KINETO_LOG_LEVEL", "99")  # it need not say: there is no GPU
        run = Run(command, run_folder, environment)
        run.wait(_Written(folder, options, say).is_over)
        processes = list(map(wire.decode, report.read_text().splitlines())) if report.exists() else []
        seen = describe_activities(Path(run_folder))
    traces = sorted(folder.glob(TRACES))
    if not traces:
        with suppress(OSError):  # something else is in it
            folder.rmdir()
        if not run.stopped:
            kind = CrashError if run.exit_code else WorkshopError
            raise kind(_why_nothing(command, options, processes, run.exit_code, seen))
    load_beside.keep(run.load.end(), *traces)
    is_complete = bool(processes) and 0 < options.repeat <= min(process.cycles for process in processes)
    is_over = run.is_over or (options.stop and is_complete)
    return RecordedTraces(folder, traces, **{**run.ended(), "is_over": is_over})


class _Written:
    """Tells when every rank has written all cycles, and no more ranks come, while the training goes on."""

    def __init__(self, folder: Path, options: ProfilerOptions, say: Say) -> None:
        self._folder, self._options, self._say = folder, options, say
        self._sizes: dict[str, int] = {}
        self._since = time.monotonic()
        self._said = False

    def is_over(self) -> bool:
        """Return whether a training that was to stop goes on; of another one it is said that it does."""
        if not self._options.repeat:
            return False
        now = time.monotonic()
        sizes = {path.name: path.stat().st_size for path in self._folder.glob(TRACES)}
        if sizes != self._sizes:
            self._sizes, self._since = sizes, now
        cycles = Counter(name.partition(".")[0] for name in sizes)
        if not cycles or min(cycles.values()) < self._options.repeat:
            return False
        if self._options.stop:
            return now - self._since >= STOP_PATIENCE_S
        if now - self._since >= SETTLED_S and not self._said:
            traces = f"{len(sizes)} trace{'s are' if len(sizes) > 1 else ' is'} written to {self._folder}"
            below = "\n\n"  # two progress bars, one inside the other
            self._say(f"{below}{traces}, and the training goes on. Ctrl-C ends it; with --stop it ends by itself.")
            self._said = True
        return False


def slurm_job(command: list[str], options: ProfilerOptions) -> str:
    """Return a SLURM job script that records a command on all nodes."""
    flags = []
    for field in fields(ProfilerOptions):
        value, flag = getattr(options, field.name), f"--{field.name.replace('_', '-')}"
        if value != field.default:
            flags += [flag] if value is True else [flag, ",".join(value) if isinstance(value, tuple) else str(value)]
    return job_script(["workshop", "record", "torch", *flags], command)


def _why_nothing(
    command: list[str], options: ProfilerOptions, processes: list[ProfilerReport], exit_code: int, seen: str
) -> str:
    what = shlex.join(command)
    steps = max((process.steps for process in processes), default=0)
    if exit_code:
        return f"{what} ended with exit code {exit_code} after {steps} steps; nothing was recorded"
    if not steps:
        return f"{what} ended before a training step was seen; nothing was recorded: {seen}"
    first = options.first_kept_step
    return (
        f"{what} ended after {steps} step{'s' * (steps != 1)}, and step {first} is the first to be kept; "
        "say --wait 0 --warmup 1, or train longer"
    )
