"""A command of the workshop in a process of its own, started from a cell of a notebook, and gone when the cell ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from workshop.runs.process_tree import LOOK_EVERY_S, end, tree_of
from workshop.terminal import COLUMNS_VARIABLE, cut

CELL_VARIABLE = "WORKSHOP_CELL"
"""All processes of a command have this variable in their environment, by which they are found in the end."""

COLUMNS = "100"
"""Columns of what is printed below a cell, unless the environment says otherwise."""

CLEAN_UP_S = 90.0
"""Seconds, at most, that a command gets after an interrupt to say what it has seen until then."""

# Reading ends when the kernel does, which alone holds the other end: it may be restarted in the middle.
_GUARD = """
import os, shutil, signal, sys
if not sys.stdin.read():
    try:
        os.killpg(int(sys.argv[1]), signal.SIGTERM)
    finally:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
"""


def command_line(words: Sequence[str]) -> list[str]:
    """Return what starts a command of the workshop, such that no file of this folder stands in for a module."""
    return [sys.executable, "-P", "-m", "workshop", *words]


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a command whose text is shown below a cell: a kernel asks for colours."""
    plain = {COLUMNS_VARIABLE: os.environ.get("COLUMNS", COLUMNS), "NO_COLOR": "1", "FORCE_COLOR": ""}
    return {**os.environ, **plain, CELL_VARIABLE: str(folder)}


def run_module(folder: Path, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module that takes no time, and only reads what is there."""
    command = [sys.executable, "-P", "-m", module, *words]
    text: dict[str, Any] = {"capture_output": True, "text": True, "encoding": "utf-8", "errors": "replace"}
    return subprocess.run(command, env=environment_of(folder), stdin=subprocess.DEVNULL, check=False, **text)


def last_line(text: str) -> str:
    """Return the last line with something in it; a bar that is drawn again and again in its line is one."""
    lines = text.replace("\r", "\n").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


class CommandProcess:
    """A command, with what it prints.

    Args:
        words: what stands behind `workshop`.
        folder: the folder of this cell, for what the command writes; its path is the mark of all processes.
        only_progress: what it prints to stdout is not its answer, but what a script of somebody prints.

    Attributes:
        interrupted: whether the cell was interrupted.
    """

    def __init__(self, words: Sequence[str], folder: Path, only_progress: bool = False) -> None:
        self._mark, self.interrupted = str(folder), False
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command_line(words),
                env=environment_of(folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if only_progress else output,
                stderr=subprocess.STDOUT if only_progress else subprocess.PIPE,
                process_group=0,
            )
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self.process.pid), self._mark],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.said = SaidSoFar(self.process.stdout if only_progress else self.process.stderr)

    def wait(self, progress: "CellProgress") -> int:
        """Wait for its end, with progress shown, and return its exit code; after an interrupt, nothing of it is left.

        As Ctrl-C in a terminal, an interrupt lets it say what it has seen; a second one ends it at once.
        """
        try:
            try:
                self._watch(progress)
            except KeyboardInterrupt:
                self.interrupted = True
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGINT)
                progress.show("ending it; interrupt again to end it at once")
                with suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
                    self.process.wait(CLEAN_UP_S)
        finally:
            self._end()
        return self.process.wait()

    def _watch(self, progress: "CellProgress") -> None:
        while self.process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_EVERY_S)
            progress.show(self.said.last)

    def _end(self) -> None:
        """End what still runs of it, whatever happens meanwhile."""
        end(lambda: tree_of(self.process, self._mark), grace_s=0 if self.process.poll() is not None else 10.0)
        self._guard.communicate(b"ended")

    def output(self) -> str:
        """Return what it has printed to stdout."""
        return self._output.read_text(encoding="utf-8", errors="replace")


class SaidSoFar:
    """Reads what a process says of its progress, so that it never has to wait, and keeps the last line of it."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream
        self._stream, self._end = stream, b""
        self._thread = threading.Thread(target=self._read, name="workshop progress", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """The end of all that it has said."""
        return self._end.decode(errors="replace")

    @property
    def last(self) -> str:
        """The last line."""
        return last_line(self.text)

    def _read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 65536):
                self._end = (self._end + chunk)[-4000:]


def shown(what: Any, **options: Any) -> Any:
    """Show something below the cell, as IPython's `display` does."""
    from IPython import display

    untyped: Any = display
    return untyped.display(what, **options)


class CellProgress:
    """A line below a cell that says how far a command has come, and in the end what was run.

    Without a front end, as in a terminal, there is none.

    Args:
        shell: that of IPython.
        name: what is shown first.
    """

    def __init__(self, shell: Any, name: str) -> None:
        self._name, self._begin_s = name, time.monotonic()
        self._shown_s = 0.0
        self._handle: Any = None
        if getattr(shell, "kernel", None):
            self._handle = shown(self._bundle("starts"), raw=True, display_id=True)

    def _bundle(self, says: str) -> dict[str, str]:
        return {"text/plain": f"{self._name}: {says}"}

    def show(self, says: str) -> None:
        """Show how far it has come, once a second."""
        if time.monotonic() - self._shown_s >= 1.0:
            self._shown_s = time.monotonic()
            passed_s = self._shown_s - self._begin_s
            self._update(f"{cut(says, 90) or 'starts'} ({passed_s:.0f} s)")

    def end(self, says: str) -> None:
        """Show what stays."""
        self._update(says)
        if not self._handle and sys.stderr.isatty():
            print(file=sys.stderr)

    def _update(self, says: str) -> None:
        if self._handle:
            self._handle.update(self._bundle(says), raw=True)
        elif sys.stderr.isatty():
            print(f"\r\x1b[K{cut(f'{self._name}: {says}', 79)}", end="", file=sys.stderr, flush=True)
