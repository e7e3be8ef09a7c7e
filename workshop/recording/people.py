"""Who the processes of a running command are: what a recording of stacks cannot tell afterwards."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import psutil

from workshop.profiles.stacks import Process, Recording, Stack

LOOK_EVERY_S = 0.2

MARK = "workshop-record"
"""What the shell around a command is called, so that it is known in the recording."""


class People:
    """The processes below one process, as they come and go.

    py-spy looks at a process as it starts, often before it has a command line; and it does not know of ranks, which
    torchrun puts into the environment of the processes that it starts.
    """

    def __init__(self) -> None:
        self._commands: dict[int, str] = {}
        self._ranks: dict[int, str] = {}
        self._processes: set[psutil.Process] = set()

    @contextmanager
    def watched(self, pid: int) -> Iterator[None]:
        """Look at all below a process, again and again, until the block ends."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(LOOK_EVERY_S):
                self._look(pid)

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def explain(self, recording: Recording) -> Recording:
        """The same stacks with the command lines that py-spy missed, with ranks, and without the shell."""
        return Recording([self._explained(stack) for stack in recording.stacks], recording.damage)

    def signal(self, number: int) -> None:
        """To all that still run."""
        for process in self._processes:
            with suppress(psutil.Error):
                process.send_signal(number)

    def command_runs(self) -> bool:
        """Whether the shell around the command, if it was ever seen, is there."""
        return any(MARK in self._commands.get(process.pid, "") and process.is_running() for process in self._processes)

    def _look(self, pid: int) -> None:
        with suppress(psutil.Error):
            for process in psutil.Process(pid).children(recursive=True):
                self._processes.add(process)
                with suppress(psutil.Error, OSError):
                    self._commands[process.pid] = " ".join(process.cmdline()) or self._commands.get(process.pid, "")
                    if rank := process.environ().get("RANK"):
                        self._ranks[process.pid] = rank

    def _explained(self, stack: Stack) -> Stack:
        processes: list[Process] = []
        rank = None
        for process in stack.processes:
            command = self._commands.get(process.pid) or process.command
            if MARK in command:
                if process != stack.processes[-1]:
                    continue
                # It was the shell for a moment, before it turned into the command.
                command = command.rpartition(f"{MARK} ")[2]
            if self._ranks.get(process.pid, rank) != rank:
                rank = self._ranks[process.pid]
                command = f"RANK={rank} {command}"
            processes.append(Process(process.pid, command))
        return replace(stack, processes=tuple(processes))
