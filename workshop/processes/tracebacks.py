"""The person's own part of what a script printed before it broke."""

import re
import sysconfig
from pathlib import Path

from workshop import probe

MOST_LINES = 12
"""The number of lines that are shown where there is no traceback."""

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+.*\n(?:    .*\n)*', re.MULTILINE)
_START = "Traceback (most recent call last):"
_FOREIGN = (
    sysconfig.get_path("purelib"),
    sysconfig.get_path("stdlib"),
    str(Path(probe.__file__).parent),
    "<frozen",
)


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
