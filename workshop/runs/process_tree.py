"""The processes that descend from one process: found, watched as they come and go, and ended."""

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import psutil

from workshop.runs.again_and_again import again_and_again
from workshop.runs.machine import most_processes

MAX_PROCESSES = most_processes()
"""A process group with more processes than this has run away."""

GRACE_S = 10.0
"""Seconds, at most, for a process that is told to end to clean up; then it is killed."""

LOOK_EVERY_S = 0.2

Find = Callable[[], list[psutil.Process]]
"""A function that returns processes that run, parents before their children."""


class ProcessTree:
    """Remembers the command line and the rank of every process below one process, also after it has ended."""

    def __init__(self) -> None:
        self.commands: dict[int, str] = {}
        """The command line of each process, by pid."""
        self.ranks: dict[int, str] = {}
        """The rank that torchrun has put into the environment of a process, by pid."""
        self._seen: set[psutil.Process] = set()

    @contextmanager
    def watched(self, pid: int) -> Iterator[None]:
        """Look at all processes below a process, again and again, until the block ends."""
        with again_and_again(lambda: self._look(pid), LOOK_EVERY_S):
            yield

    def running(self) -> list[psutil.Process]:
        """Return the processes that were ever seen and still run."""
        return [each for each in list(self._seen) if _runs(each)]

    def _look(self, pid: int) -> None:
        for process in descendants(pid):
            self._seen.add(process)
            with suppress(psutil.Error, OSError):
                self.commands[process.pid] = command_of(process) or self.commands.get(process.pid, "")
                if rank := process.environ().get("RANK"):
                    self.ranks[process.pid] = rank


def descendants(pid: int) -> list[psutil.Process]:
    """Return all processes below a process; none if it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes that bear a mark in their environment, also those that have lost their parent."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if mark in " ".join(each.environ().values()) and each.pid != os.getpid() and _runs(each):
                found.append(each)
    return found


def tree_of(process: subprocess.Popen[bytes], mark: str) -> list[psutil.Process]:
    """Return those that run of a process, all below it, and all with a mark in their environment."""
    found = []
    if process.poll() is None:
        with suppress(psutil.Error):
            found = [psutil.Process(process.pid), *filter(_runs, descendants(process.pid))]
    return list(dict.fromkeys([*found, *marked(mark)]))


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process; an empty text if it cannot be read."""
    try:
        return " ".join(process.cmdline())
    except (psutil.Error, OSError):
        return ""


def group_size(process_group: int) -> int:
    """Return the number of processes in a process group."""
    found = 0
    for pid in psutil.pids():
        with suppress(OSError):
            found += os.getpgid(pid) == process_group
    return found


def cpu_seconds(pid: int, without: Collection[int] = ()) -> float:
    """Return the CPU time that the processes below a process have used, in seconds, `without` some of them."""
    total = 0.0
    for process in (each for each in descendants(pid) if each.pid not in without):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:2])
    return total


def memory_together(pids: Collection[int], without: Collection[int] = ()) -> int:
    """Return the bytes that processes use together; what they share is counted once.

    Args:
        pids: the processes; those that are gone use nothing.
        without: those of them that would not be there: what they share with the others stays.
    """
    total = 0
    for pid in pids:
        with suppress(psutil.Error, OSError):
            used = psutil.Process(pid).memory_full_info()
            total += getattr(used, "pss", used.uss) - (used.uss if pid in without else 0)
    return total


def private_memory(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_full_info().uss)
    except (psutil.Error, OSError):
        return 0


def end(find: Find, grace_s: float = GRACE_S) -> None:
    """End all processes that a function finds: it is asked again until it finds none.

    Args:
        find: finds them.
        grace_s: the time that they get to clean up, after SIGTERM, before they are killed; 0 to kill them at once.
    """
    if grace_s:
        for each in find():
            with suppress(psutil.Error):
                each.terminate()
        wait_while(find, grace_s)
    give_up = time.monotonic() + GRACE_S  # one that hangs in the kernel cannot be killed
    while (left := find()) and time.monotonic() < give_up:
        _kill(left)


def wait_while(find: Callable[[], object], seconds: float) -> None:
    """Wait until a function returns nothing, or for some seconds."""
    give_up = time.monotonic() + seconds
    while find() and time.monotonic() < give_up:
        time.sleep(LOOK_EVERY_S / 4)


def _kill(processes: list[psutil.Process]) -> None:
    """Kill processes; multiprocessing's resource tracker first deletes the semaphores that the others have left."""
    trackers = []
    for each in processes:
        with suppress(psutil.Error):
            if len(processes) <= MAX_PROCESSES and "resource_tracker" in command_of(each):
                trackers.append(each)
                each.resume()  # it was stopped with the others
            else:
                each.kill()
    wait_while(lambda: any(map(_runs, processes)), 1.0)
    for each in trackers:
        with suppress(psutil.Error):
            each.kill()


def _runs(process: psutil.Process) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
