"""`workshop record torch`: a command in whose processes torch.profiler is at work, without an edit to their scripts."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.harness import injection
from workshop.recording.slurm import job_script
from workshop.recording.torch_profiler import Options, check_activities

TRACES = "*.pt.trace.json.gz"


@dataclass(frozen=True)
class Recorded:
    """How it ended."""

    folder: Path
    traces: list[Path]
    exit_code: int
    stopped: BaseException | None
    """What ended it early: Ctrl-C."""


def record(command: list[str], options: Options) -> Recorded:
    """Run a command, and record each process of it that trains.

    Args:
        command: a script with its arguments, or any command that starts Python, such as torchrun.
        options: when to record, and what.

    Raises:
        WorkshopError: there is no such command, the folder cannot be made, or too little was trained to be recorded.
    """
    command = as_command(command)
    check_activities(options.activities)
    folder = free_folder(Path(options.prof_dir))
    options = replace(options, prof_dir=str(folder.resolve()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkshopError(
            f"cannot make the folder {folder}: {error.strerror}; name another with --prof-dir"
        ) from None
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports, "report.jsonl")
        environment = os.environ | options.to_environment(report) | injection.environment()
        exit_code, stopped = _run(command, environment)
        processes = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    traces = sorted(folder.glob(TRACES))
    if not traces:
        _remove_if_empty(folder)
        if not stopped:
            raise WorkshopError(_why_nothing(command, options, processes, exit_code))
    return Recorded(folder, traces, exit_code, stopped)


def slurm_job(command: list[str], options: Options) -> str:
    """A SLURM job script that records a command on all nodes."""
    flags = []
    for field in fields(Options):
        value, flag = getattr(options, field.name), f"--{field.name.replace('_', '-')}"
        if value != field.default:
            flags += [flag] if value is True else [flag, ",".join(value) if isinstance(value, tuple) else str(value)]
    return job_script(["workshop", "record", "torch", *flags], command)


def as_command(command: list[str]) -> list[str]:
    """A script runs in this Python.

    Raises:
        WorkshopError: there is no such script, and no such command.
    """
    if command[0].endswith(".py"):
        if not Path(command[0]).is_file():
            raise WorkshopError(f"{command[0]} is not a file; name a Python script")
        return [sys.executable, *command]
    if not shutil.which(command[0]):
        raise WorkshopError(f"there is no command {command[0]}; name a script as in: record torch -- train.py")
    return command


def free_folder(folder: Path) -> Path:
    """The folder, or one with a number if it has the traces of another run."""
    number, free = 1, folder
    while any(free.glob(TRACES)):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, BaseException | None]:
    process = subprocess.Popen(command, env=environment)
    stopped: BaseException | None = None
    while process.poll() is None:
        try:
            process.wait()
        except KeyboardInterrupt as stop:  # the terminal tells the command, too, which may have traces to write
            stopped = stop
        except SystemExit as stop:
            stopped = stop
            process.terminate()
    code = process.returncode
    return (128 - code if code < 0 else code), stopped


def _why_nothing(command: list[str], options: Options, processes: list[dict[str, Any]], exit_code: int) -> str:
    what = shlex.join(command)
    steps = max((each["steps"] for each in processes), default=0)
    if exit_code:
        return f"{what} ended with exit code {exit_code} after {steps} optimizer steps; nothing was recorded"
    if not processes:
        return f"{what} never made an optimizer of torch; nothing was recorded"
    return (
        f"{what} ended after {steps} optimizer step{'s' * (steps != 1)}, and step {options.first} is the first to be "
        "kept; say --wait 0 --warmup 1, or train longer"
    )


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
