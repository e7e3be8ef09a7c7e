"""A script that trains in a process of its own, epoch by epoch, when it is told to; and how to be rid of it."""

import contextlib
import ctypes
import getpass
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from workshop.harness import injection
from workshop.harness.probe import VARIABLE, Orders

MOST_PROCESSES = 200
MOST_OUTPUT_BYTES = 20_000
"""Of what a script prints, so much of the end is kept."""

# Reading ends when the other end of the pipe is closed, which only the judge holds.
_GUARD = """
import os, shutil, sys
sys.stdin.read()
try:
    os.killpg(int(sys.argv[1]), 9)
finally:
    shutil.rmtree(sys.argv[2], ignore_errors=True)
"""

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, <sys/prctl.h>


class ScriptError(Exception):
    """A watched script did not come to the end of an epoch.

    Attributes:
        exit_code: the script's own; None if it was still running and has been killed.
        output: the end of what it printed.
    """

    def __init__(self, message: str, exit_code: int | None, output: str) -> None:
        super().__init__(message)
        self.exit_code, self.output = exit_code, output


@dataclass(frozen=True)
class Epoch:
    """One epoch of a child."""

    seconds: float
    """By the judge's clock, from the end of the last optimizer step before it to the end of its own last one."""

    phases: dict[str, float]
    """Seconds in each phase of `loop.PHASES`, by the child's clock."""

    sample: Path | None
    """The step that was recorded, if one was asked for."""

    finished: bool
    """False for an epoch that was cut off because the optimizer does not step."""

    replaced_clocks: tuple[str, ...]
    """Names in `time` that the script has replaced."""

    copies: dict[str, float] | None = None
    """See `overlap.CopyTrace.finish`."""


class Child:
    """A script, started with its arguments, that stops after each epoch.

    It runs in a process group of its own, which is stopped while it is another's turn. A small process beside it, the
    guard, kills the group and deletes the folder should the judge be killed.

    Args:
        command: the script and its arguments.
        photos: the folder whose files are the data.
        epoch_steps: optimizer steps in an epoch; None for what its first DataLoader says.
        patience_s: how long an epoch may take, the start-up included.
        work: the folder it runs in; None for an empty one.
        environment: further variables.
        measure: its steps are timed, and it is not stopped: see `messages`.
    """

    def __init__(
        self,
        command: list[str],
        photos: Path,
        epoch_steps: int | None = None,
        patience_s: float = 180.0,
        work: Path | None = None,
        environment: Mapping[str, str] | None = None,
        measure: bool = False,
    ) -> None:
        self.environment, self.measure = environment or {}, measure
        self.command, self.photos, self.epoch_steps, self.patience_s = command, photos, epoch_steps, patience_s
        self.folder = Path(tempfile.mkdtemp(prefix="workshop-"))
        self.work = work or self.folder / "work"
        self.lives = 0
        self.epochs_in_life = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, sample_step: int | None = None) -> None:
        """Start the script, which runs into its first epoch at once."""
        self.stop()
        own, theirs = socket.socketpair()
        self.work.mkdir(exist_ok=True)
        os.set_inheritable(theirs.fileno(), True)
        orders = Orders(
            folder=str(self.folder),
            photos=f"{self.photos.resolve()}{os.sep}",
            control=theirs.fileno(),
            epoch_steps=self.epoch_steps,
            sample_step=sample_step,
            life=self.lives,
            measure=self.measure,
        )
        environment = os.environ | self.environment | orders.to_environment() | injection.environment()
        environment.pop("LINE_PROFILE", None)
        # What a killed process leaves goes with the folder; only what was compiled is worth keeping for the next time.
        compiled = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(compiled)} | environment | {"TMPDIR": str(self.folder)}
        _adopters.add(self)
        adopt_orphans(True)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *self.command],
                cwd=self.work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        self.socket, self.heard = own, b""
        self.guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self.process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.output = _Tail(self.process.stdout)
        self.lives += 1
        self.epochs_in_life = 0

    def epoch(
        self,
        sample_step: int | None = None,
        keep_batches: bool = False,
        from_memory: bool = False,
        trace_copies: bool = False,
        pause: bool = True,
    ) -> Epoch:
        """Let it train for one epoch. A script that has ended, after an epoch at least, is started again.

        Args:
            sample_step: record that step, counted from 0.
            keep_batches: keep the batches for an epoch `from_memory`, where the DataLoader hands out the kept ones.
            from_memory: see there.
            trace_copies: measure how much of the copies to a CUDA device is hidden under kernels.
            pause: stop it after the epoch, with all that it started.

        Raises:
            ScriptError: it ended, hung or ran away.
        """
        if self.process is None:
            self.start(sample_step)
        elif self.epochs_in_life:
            self._signal(signal.SIGCONT)
            self.say(
                do="go",
                sample_step=sample_step,
                keep_batches=keep_batches,
                from_memory=from_memory,
                trace_copies=trace_copies,
            )
        begin = time.perf_counter()
        try:
            self._hear()
            seconds = time.perf_counter() - begin
            report = self._hear()
        except _EndedError:
            if not self.epochs_in_life or self._exit_code() != 0:
                raise self._ended() from None
            if self.epochs_in_life < 2:
                self.stop()
                raise ScriptError(
                    "it ends after one epoch; the judge needs two of a run, one of them to warm up",
                    None,
                    self.output.text(),
                ) from None
            self.start()  # it insists on its own number of epochs
            self.epoch()  # its first one warms up
            return self.epoch(sample_step, keep_batches, from_memory, trace_copies)
        self.epochs_in_life += 1
        self.epoch_steps = self.epoch_steps or report["steps"]
        if pause:
            self.pause()
        return Epoch(
            seconds=seconds,
            phases=report["phases"],
            sample=Path(report["sample"]) if report["sample"] else None,
            finished=report["finished"],
            replaced_clocks=tuple(report["replaced_clocks"]),
            copies=report["copies"],
        )

    def recompute(self, *samples: Path) -> dict[str, Any]:
        """Have a step that others recorded computed over again by this one: see `replay.recompute`."""
        if self.process is None:
            raise ValueError("a child computes only between epochs")
        self._signal(signal.SIGCONT)
        try:
            self.say(do="recompute", samples=list(map(str, samples)))
            return self._hear()
        except _EndedError:
            raise self._ended() from None

    def messages(self) -> Iterator[dict[str, Any]]:
        """What a script that is measured says, a message for each step or some, until it ends.

        Raises:
            ScriptError: it broke, hung or ran away.
        """
        steps = 0
        try:
            while self.process is not None:
                message = self._hear()
                steps += message["steps"]
                yield message
        except _EndedError:
            if self._exit_code() != 0:
                raise self._ended(f"after {steps} steps") from None

    def say(self, **message: Any) -> None:
        """Tell the script something. One that has ended does not hear it."""
        with contextlib.suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def stop(self) -> None:
        """Kill the script with all it started."""
        if self.process is None:
            return
        process, self.process = self.process, None
        _kill(process, mark=str(self.folder))
        _adopters.discard(self)
        adopt_orphans(bool(_adopters))
        self.guard.kill()
        self.guard.communicate()
        self.socket.close()

    def close(self) -> None:
        """Kill the script and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pause(self) -> None:
        """Stop it, with all that it started, until its next epoch."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        """To the script and all that it started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def _hear(self) -> dict[str, Any]:
        """The next line it says; watch over it meanwhile."""
        assert self.process is not None
        give_up = time.monotonic() + self.patience_s
        while b"\n" not in self.heard:
            # Looking at every process costs time that is the script's: once a second is enough.
            if select.select([self.socket], [], [], 1.0)[0]:
                self._listen()
            elif self.process.poll() is not None:
                raise _EndedError
            elif time.monotonic() > give_up:
                raise self._broken(f"it did not come to the end of {self.unit} within {self.patience_s:.0f} s")
            elif len(psutil.Process().children(recursive=True)) > MOST_PROCESSES:
                raise self._broken(f"it started more than {MOST_PROCESSES} processes")
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)

    def _listen(self) -> None:
        try:
            heard = self.socket.recv(65536)
        except OSError:
            heard = b""
        if not heard:
            raise _EndedError
        self.heard += heard

    def _broken(self, message: str) -> ScriptError:
        self.stop()
        return ScriptError(message, None, self.output.text())

    @property
    def unit(self) -> str:
        """What it is expected to report."""
        return "a step" if self.measure else "an epoch"

    def _ended(self, when: str = "") -> ScriptError:
        exit_code = self._exit_code()
        self.stop()
        how = f"was killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with code {exit_code}"
        if not when:
            when = f"after {self.epochs_in_life} epochs" if self.epochs_in_life else "before the end of its first epoch"
        return ScriptError(f"it {how} {when}", exit_code, self.output.text())

    def _exit_code(self) -> int:
        assert self.process is not None
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            raise self._broken("it hung up on the judge, and went on") from None


class _EndedError(Exception):
    """The process is gone."""


class _Tail:
    """Reads all that a process prints, so that it never waits, and keeps the end."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self.stream = stream
        self.chunks: deque[bytes] = deque()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        kept = 0
        while chunk := os.read(self.stream.fileno(), 65536):
            self.chunks.append(chunk)
            kept += len(chunk)
            while kept - len(self.chunks[0]) > MOST_OUTPUT_BYTES:
                kept -= len(self.chunks.popleft())

    def text(self) -> str:
        """The end of what was printed."""
        self.thread.join(timeout=1.0)  # all writers have been killed; one that escaped must not hold the judge up
        return b"".join(self.chunks)[-MOST_OUTPUT_BYTES:].decode(errors="replace")


_adopters: set[Child] = set()
"""While there is one, no process that it started may get out of sight."""


def adopt_orphans(adopt: bool) -> None:
    """On Linux, have processes whose parent dies become this one's children; or be as any process again."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, int(adopt), 0, 0, 0)


def _descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        return []


def _kill(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a process, all it started, and whoever of them has left its process group."""
    descendants = _descendants(process)
    if len(descendants) <= MOST_PROCESSES:  # else only killing all at once outruns a fork bomb
        _let_clean_up(process, descendants)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    escaped = descendants
    while escaped := [*escaped, *_adopted(mark)]:
        for each in escaped:
            with contextlib.suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(escaped, timeout=1)
        escaped = []


def _let_clean_up(process: subprocess.Popen[bytes], descendants: list[psutil.Process]) -> None:
    """Kill all but multiprocessing's resource tracker, which then deletes the semaphores that the others have left."""
    trackers = []
    for each in descendants:
        with contextlib.suppress(psutil.Error):
            if "resource_tracker" in " ".join(each.cmdline()):
                trackers.append(each)
                each.resume()  # it was stopped with the others
            else:
                each.kill()
    if trackers:
        process.kill()
        psutil.wait_procs(trackers, timeout=2)


def _adopted(mark: str) -> list[psutil.Process]:
    """Children of this process that bear a mark in their environment."""
    adopted = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if mark in child.environ().get(VARIABLE, "") and child.status() != psutil.STATUS_ZOMBIE:
                adopted.append(child)
    return adopted
