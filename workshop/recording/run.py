"""A command that is recorded: it runs to its end, for some time, or until Ctrl-C, and nothing of it is left running.

Or a job script that records it on all nodes of a cluster.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from workshop.errors import WorkshopError
from workshop.file_kind import require_script, wrong_kind
from workshop.notebooks.cell_script import runnable
from workshop.notebooks.notebook_file import SCRIPT_SUFFIXES
from workshop.probe.first_step import STEP, TORCH
from workshop.probe.settings import FIRST_STEP_VARIABLE, RUN_VARIABLE
from workshop.runs.other_load import LoadMeter, OtherLoad
from workshop.runs.process_tree import GRACE_S, LOOK_EVERY_S, end, tree_of, wait_while
from workshop.runs.script import Say
from workshop.runs.script_error import script_in

CLEAN_UP_S = 60.0
"""Seconds, at most, that a command gets after Ctrl-C to save what it has; pressed again, Ctrl-C ends it at once."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """How a command that was recorded ended; what is recorded of it is added by each recorder."""

    exit_code: int
    """The exit code of the command, as a shell has it."""
    stopped: BaseException | None
    """The exception of Ctrl-C or of a signal that ended the command early."""
    is_over: bool
    """Whether it was ended because its time was over, or all was recorded that was asked for."""
    machine: OtherLoad
    """What other programs used of the cores meanwhile."""


def as_command(command: list[str]) -> list[str]:
    """Return a command that can be started: this Python stands before a script, and before `-m` with a module.

    In place of a notebook stands what runs its cells.

    Raises:
        WorkshopError: there is no such script, and no such command.
    """
    if command[0].endswith(SCRIPT_SUFFIXES):
        require_script(Path(command[0]))
        return [sys.executable, *runnable(command)]
    if command[0] == "-m":
        return [sys.executable, *command]
    require_command(command[0], "name one, or a script such as train.py")
    return runnable(command) if script_in(command) else command


def require_command(name: str, otherwise: str) -> None:
    """Check that there is a command.

    Raises:
        WorkshopError: there is none; if there is a file of this name, it is said what it is.
    """
    if not shutil.which(name):
        if Path(name).is_file():
            raise WorkshopError(wrong_kind(Path(name), "not a command", otherwise))
        raise WorkshopError(f"there is no command {name}; {otherwise}")


class Run:
    """A command and all the processes that it starts: they bear the name of `folder`, which is this run's alone.

    Attributes:
        stopped: the exception of Ctrl-C or of a signal that ended it early.
        is_over: whether it was ended because its time was over.
        load: tells what other programs used of the cores meanwhile.
    """

    def __init__(self, command: Sequence[str], folder: str, environment: Mapping[str, str]) -> None:
        self.stopped: BaseException | None = None
        self.is_over = False
        self._mark = folder
        self.process = subprocess.Popen(command, env={**os.environ, **environment, RUN_VARIABLE: folder})
        self.load = LoadMeter()

    @property
    def exit_code(self) -> int:
        """The exit code of the command, as a shell has it; 0 if its time was over."""
        code = self.process.returncode
        return 0 if self.is_over else 128 - code if code < 0 else code

    def ended(self) -> dict[str, Any]:
        """Return how the command ended, as the fields of a `RecordedRun`."""
        machine = self.load.end()
        return {"exit_code": self.exit_code, "stopped": self.stopped, "is_over": self.is_over, "machine": machine}

    @property
    def patience_s(self) -> float:
        """The time that workers and ranks get to end by themselves once the command has ended, and after SIGTERM."""
        return GRACE_S

    def has_ended(self) -> bool:
        """Return whether the command has ended."""
        return self.process.poll() is not None

    def processes(self) -> list[psutil.Process]:
        """Return the processes that still run."""
        return tree_of(self.process, self._mark)

    def wait(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait until the command has ended, or its time is over; then end what it has left running.

        The terminal sends Ctrl-C to all processes itself; a signal, which only this process has got, is passed on.
        """
        try:
            while not self.has_ended() and not self.is_over:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(LOOK_EVERY_S)
                self.is_over = not self.has_ended() and is_over()
        except (KeyboardInterrupt, SystemExit) as stop:
            self.stopped = stop
        self.load.end()
        try:
            if isinstance(self.stopped, KeyboardInterrupt):
                wait_while(lambda: not self.has_ended(), CLEAN_UP_S)
            if self.has_ended():
                wait_while(self.processes, self.patience_s)
            end(self.processes, self.patience_s)
            self.process.wait(CLEAN_UP_S)  # it may still write what it has seen
        except (KeyboardInterrupt, SystemExit, subprocess.TimeoutExpired):  # pressed again, or it hangs
            end(lambda: tree_of(self.process, self._mark), grace_s=0)


TORCH_PATIENCE_S = 20.0
"""Seconds, at most, until a run has loaded torch: after that, it is taken for one without."""

STEP_PATIENCE_S = 60.0
"""Seconds, at most, from the loading of torch to the first step: after that, no step is expected to be seen."""


class TimeLimit:
    """Tells when the seconds of a run are over, None for no end; says from when they count if no step is seen."""

    def __init__(self, seconds: float | None, folder: Path, say: Say) -> None:
        self._seconds, self._folder, self._say = seconds, folder, say
        self._started_s = time.monotonic()
        self._torch_s: float | None = None
        self._begin_s: float | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that ask the processes of the run to note their first step."""
        return {} if self._seconds is None else {FIRST_STEP_VARIABLE: str(self._folder)}

    def is_over(self) -> bool:
        """Return whether the time of the run is over."""
        if self._seconds is None:
            return False
        now_s = time.monotonic()
        if self._begin_s is None:
            self._begin_s = self._begin(now_s)
        return self._begin_s is not None and now_s - self._begin_s >= self._seconds

    def _begin(self, now_s: float) -> float | None:
        """From when on the seconds count, if that is known."""
        if (self._folder / STEP).exists():
            return now_s
        if self._torch_s is None and (self._folder / TORCH).exists():
            self._torch_s = now_s
        if self._torch_s is not None and now_s - self._torch_s >= STEP_PATIENCE_S:
            self._say(f"\nNo training step was seen within {STEP_PATIENCE_S:.0f} s; the {self._seconds:g} s begin now.")
            return now_s
        if self._torch_s is None and now_s - self._started_s >= TORCH_PATIENCE_S:
            self._say(f"\ntorch was not loaded within {TORCH_PATIENCE_S:.0f} s; the time counts from the start.")
            return self._started_s
        return None


def job_script(recorder: list[str], command: list[str]) -> str:
    """Return a job script that runs a recorder on each node, and under it torchrun with a process for each GPU."""
    # The text stands between the double quotes of a shell.
    quoted = shlex.join(_after_torchrun(command)).translate({ord(character): f"\\{character}" for character in '\\"$`'})
    inner = [
        f"{shlex.join(recorder)} -- torchrun",
        "--nnodes=$SLURM_NNODES",
        "--nproc_per_node=${SLURM_GPUS_PER_NODE##*:}",
        "--rdzv_id=$SLURM_JOB_ID",
        r"--rdzv_conf=is_host=\$(((SLURM_NODEID)) && echo 0 || echo 1)",
        "--rdzv_backend=c10d",
        "--rdzv_endpoint=$head_node:29500",
        quoted,
    ]
    lines = " \\\n    ".join(inner)
    return f"""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=00:30:00
# Change these to what the job needs; then: sbatch FILE. No node writes into the recording of another.
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --cpu-bind=none --ntasks-per-node=1 --cpus-per-task=${{SLURM_CPUS_PER_TASK:-1}} \\
    bash -c "{lines}"
"""


def _after_torchrun(command: list[str]) -> list[str]:
    """Return a command without what torchrun does itself, such as starting Python."""
    if command[:2] == ["workshop", "torchrun"]:
        return command[2:]
    program = command[0].rpartition("/")[2]
    if program == "torchrun" or program.startswith("python"):
        return command[1:]
    return command if program.endswith(".py") else ["--no-python", *command]
