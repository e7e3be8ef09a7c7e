"""The processes that descend from one process: found, watched as they come and go, and ended."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

MOST_PROCESSES = 200
"""A tree with more processes than this has run away."""

LOOK_EVERY_S = 0.2

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, <sys/prctl.h>


class ProcessTree:
    """Remembers every process below one process, with its command line and its rank, also after it has ended.

    Attributes:
        commands: the command line of each process, by pid.
        ranks: the rank that torchrun has put into the environment of a process, by pid.
    """

    def __init__(self) -> None:
        self.commands: dict[int, str] = {}
        self.ranks: dict[int, str] = {}
        self._processes: set[psutil.Process] = set()

    @contextmanager
    def watched(self, pid: int) -> Iterator[None]:
        """Look at all processes below a process, again and again, until the block ends."""
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

    def send_signal(self, number: int) -> None:
        """Send a signal to every process that still runs."""
        for process in self._processes:
            with suppress(psutil.Error):
                process.send_signal(number)

    def runs(self, words: str) -> bool:
        """Return whether a process is still there whose command line was ever seen to contain these words."""
        return any(words in self.commands.get(process.pid, "") and process.is_running() for process in self._processes)

    def _look(self, pid: int) -> None:
        for process in descendants(pid):
            self._processes.add(process)
            with suppress(psutil.Error, OSError):
                self.commands[process.pid] = " ".join(process.cmdline()) or self.commands.get(process.pid, "")
                if rank := process.environ().get("RANK"):
                    self.ranks[process.pid] = rank


def descendants(pid: int) -> list[psutil.Process]:
    """Return all processes below a process; none if it is gone."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the processes below a process have used, in seconds."""
    total = 0.0
    for process in descendants(pid):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:2])
    return total


def adopt_orphans(adopt: bool) -> None:
    """On Linux, have processes whose parent dies become children of this process; or no longer."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, int(adopt), 0, 0, 0)


def kill_tree(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a process that leads a process group, all it started, and those of them that have left its group.

    Args:
        process: the process.
        mark: a text that only the environments of its descendants contain; with it those are found that have lost
            their parent and become children of this process.
    """
    below = descendants(process.pid)
    if len(below) <= MOST_PROCESSES:  # else only killing all at once outruns a fork bomb
        _let_clean_up(process, below)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = below
    while left := [*left, *_adopted(mark)]:
        for each in left:
            with suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(left, timeout=1)
        left = []


def kill_descendants() -> None:
    """Kill every process below this one."""
    left = psutil.Process().children(recursive=True)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=2)


def _let_clean_up(process: subprocess.Popen[bytes], below: list[psutil.Process]) -> None:
    """Kill all but multiprocessing's resource tracker, which then deletes the semaphores that the others have left."""
    trackers = []
    for each in below:
        with suppress(psutil.Error):
            if "resource_tracker" in " ".join(each.cmdline()):
                trackers.append(each)
                each.resume()  # it was stopped with the others
            else:
                each.kill()
    if trackers:
        process.kill()
        psutil.wait_procs(trackers, timeout=2)


def _adopted(mark: str) -> list[psutil.Process]:
    """The processes below this one that bear a mark in their environment and have not ended."""
    adopted = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if mark in " ".join(child.environ().values()) and child.status() != psutil.STATUS_ZOMBIE:
                adopted.append(child)
    return adopted
