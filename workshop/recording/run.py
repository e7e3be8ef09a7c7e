"""A command that is recorded: it runs to its end, for some time, or until Ctrl-C, and nothing of it is left running."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from workshop.errors import WorkshopError
from workshop.file_kind import require_script, wrong_kind
from workshop.probe.settings import RUN_VARIABLE
from workshop.runs.other_load import LoadMeter, OtherLoad
from workshop.runs.process_tree import GRACE_S, LOOK_EVERY_S, end, tree_of, wait_while

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

    Raises:
        WorkshopError: there is no such script, and no such command.
    """
    if command[0].endswith(".py"):
        require_script(Path(command[0]))
        return [sys.executable, *command]
    if command[0] == "-m":
        return [sys.executable, *command]
    require_command(command[0], "name one, or a script such as train.py")
    return command


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
