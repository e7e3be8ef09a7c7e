"""The processes that descend from one process: found, watched as they come and go, and ended."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

MOST_PROCESSES = 200
"""A tree with more processes than this has run away."""

LOOK_EVERY_S = 0.2


class ProcessTree:
    """Remembers every process below one process, also after it has ended."""

    def __init__(self) -> None:
        self.commands: dict[int, str] = {}
        """The command line of each process, by pid."""
        self.ranks: dict[int, str] = {}
        """The rank that torchrun has put into the environment of a process, by pid."""
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


def wait_for_end(
    process: subprocess.Popen[bytes], terminate: Callable[[], None], seconds: float | None = None
) -> BaseException | None:
    """Wait for a process, which may clean up after Ctrl-C or a signal; return the exception of that, if there was one.

    The terminal sends Ctrl-C to the process as well; `terminate` has to pass on a signal, which only this process got.
    It is also called after some seconds, if they are given.
    """
    stopped: BaseException | None = None
    while process.poll() is None:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            seconds = None
            terminate()
        except KeyboardInterrupt as stop:
            stopped = stop
        except SystemExit as stop:
            stopped = stop
            terminate()
    return stopped


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
        pr_set_child_subreaper = 36  # as in <sys/prctl.h>
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, int(adopt), 0, 0, 0)


def kill_tree(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a process that leads a process group, all it started, and those of them that have left its group.

    A descendant that has lost its parent is a child of this process; `mark` is a text in its environment alone.
    """
    below = descendants(process.pid)
    if len(below) <= MOST_PROCESSES:  # else only killing all at once outruns a fork bomb
        _let_clean_up(process, below)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _kill(below, timeout_s=1)
    while adopted := marked(mark):
        _kill(adopted, timeout_s=1)


def kill_descendants() -> None:
    """Kill every process below this one."""
    _kill(descendants(os.getpid()), timeout_s=2)


def _kill(processes: list[psutil.Process], timeout_s: float) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=timeout_s)


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


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes below this one that bear a mark in their environment and have not ended."""
    adopted = []
    for child in descendants(os.getpid()):
        with suppress(psutil.Error):
            if mark in " ".join(child.environ().values()) and child.status() != psutil.STATUS_ZOMBIE:
                adopted.append(child)
    return adopted
