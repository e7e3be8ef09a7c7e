"""What a script prints: the end of it, and what its own author needs to read of that."""

import os
import re
import sysconfig
import threading
from pathlib import Path
from typing import IO

from workshop import probe

MOST_BYTES = 20_000
"""The number of bytes at the end of the output that are kept."""

MOST_LINES = 12
"""The number of lines that are shown where there is no traceback."""

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+.*\n(?:    .*\n)*', re.MULTILINE)
_START = "Traceback (most recent call last):"
_FOREIGN = (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), str(Path(probe.__file__).parent), "<frozen")


class OutputTail:
    """Reads everything that a process prints, so that it never has to wait, and keeps the end of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._end = stream, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return the end of what was printed, once all writers have ended, or after a second."""
        self._thread.join(timeout=1.0)  # a process that has escaped may still hold the pipe open
        return self._end.decode(errors="replace")

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65536):
            self._end = (self._end + chunk)[-MOST_BYTES:]


def shorten(output: str) -> str:
    """Return the last traceback without the frames of Python, its packages and the probe; else the last lines."""
    # A progress bar goes back to the start of its line, or up one with an escape sequence.
    lines = [line.rpartition("\r")[2].removeprefix("\x1b[A") for line in output.split("\n")]
    text = "\n".join(line for line in lines if line.strip()) + "\n"
    _, found, trace = text.rpartition(_START)
    if not found:
        return "\n".join(text.splitlines()[-MOST_LINES:])
    own = _FRAME.sub(lambda frame: "" if frame["file"].startswith(_FOREIGN) else frame[0], trace)
    return (found + (own if '  File "' in own else trace)).strip()
