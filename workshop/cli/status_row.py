"""A row at the bottom of the terminal that shows that a command still runs, below whatever the command prints.

The terminal scrolls only the rows above it, as when apt installs something. The output of the command goes to the
terminal itself, and is neither read nor changed.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

from workshop.cli.output import say
from workshop.runs.again_and_again import again_and_again

SHELLS = {"sh", "py-spy", "nsys"}
"""The processes around a recorded command, which a person has not asked for."""

SAVE, RESTORE, CLEAR, PLAIN, DIM, ALL_ROWS = "\x1b7", "\x1b8", "\x1b[K", "\x1b[0m", "\x1b[2m", "\x1b[r"
DOWN, UP = "\x1bD", "\x1b[1A"
"""What a terminal is told, as VT100 had it. To save keeps the place and the colour; setting the rows that scroll moves
the cursor; to go down scrolls in the last row, and keeps the column."""


ENDING = "ending it; Ctrl-C again ends it at once"


@contextmanager
def status_row(name: str) -> Iterator[None]:
    """Show below the output, once a second, for how long something has run, and in how many processes.

    Without a terminal on stderr, or in a low one, there is no row; nor in a cell of a notebook, which only says that it
    is a terminal. From Ctrl-C on, the row says that it is being ended; where there is none, a line does.
    """
    is_notebook = "JPY_PARENT_PID" in os.environ
    has_row = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not is_notebook
    row = _StatusRow(name, sys.stderr.fileno()) if has_row else None
    before = signal.getsignal(signal.SIGINT)

    def pressed(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        if not (row and row.says(ENDING)):
            say(f"\n{ENDING}")  # below the progress bar of the script
        signal.default_int_handler(number, frame)

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, pressed)
    try:
        with again_and_again(row.draw, every_s=1.0) if row else nullcontext():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        if row:
            row.remove()


class _StatusRow:
    """The last row of a terminal. All that is written for one change is written at once, so that nothing mixes."""

    def __init__(self, name: str, terminal: int) -> None:
        self._name, self._terminal = name, terminal
        self._begin_s = time.monotonic()
        self._size: os.terminal_size | None = None  # of the terminal whose last row is taken
        self._how_it_ends = "Ctrl-C ends it"

    def says(self, how_it_ends: str) -> bool:
        """Show from now on how it ends, and return whether that can be seen."""
        self._how_it_ends = how_it_ends
        self.draw()
        return self._size is not None

    def draw(self) -> None:
        """Show the row, or show it again where the last row is now, as after a change of the window's size."""
        size = shutil.get_terminal_size()
        with suppress(OSError):
            size = os.get_terminal_size(self._terminal)
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return  # it runs in the background: the terminal is somebody else's
        if size.lines < 10:  # a person needs all of them
            self.remove()
            return
        # The cursor may be in the row that is taken: the text above moves up, and the cursor with it.
        begin = "" if size == self._size else f"{SAVE}{ALL_ROWS}{RESTORE}{DOWN}{UP}"
        self._size = size
        text = self._text()[: size.columns - 1]
        self._write(
            f"{begin}{SAVE}\x1b[1;{size.lines - 1}r\x1b[{size.lines};1H{PLAIN}{DIM}{text}{PLAIN}{CLEAR}{RESTORE}"
        )

    def remove(self) -> None:
        """Give the last row back, if it was taken."""
        if self._size:
            self._write(f"{SAVE}{ALL_ROWS}\x1b[{self._size.lines};1H{PLAIN}{CLEAR}{RESTORE}")
            self._size = None

    def _text(self) -> str:
        import psutil

        count = 0
        with suppress(psutil.Error):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    count += child.name() not in SHELLS
        processes = f", {count} process{'es' * (count != 1)}" if count else ""
        return f"{self._name}: {time.monotonic() - self._begin_s:.0f} s{processes}; {self._how_it_ends}"

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            os.write(self._terminal, text.encode())
