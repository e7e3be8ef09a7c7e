"""What a script prints: the end of it, and what its own author needs to read of that."""

import os
import re
import sysconfig
import threading
from pathlib import Path
from typing import IO

from workshop import probe

MAX_BYTES = 20_000
"""Bytes, at most, of the end of the output that are kept."""

MAX_LINES = 12
"""Lines, at most, that are shown where there is no traceback."""

CONSEQUENCE = " by peer"
"""Torch says "Connection closed by peer", or "reset by peer", in a rank whose neighbour has ended."""

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line \d+.*\n(?:    .*\n)*', re.MULTILINE)
_RANK = re.compile(r"\[rank(\d+)\]: ?")
_LOG_OF_TORCHRUN = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
_FIRST_FAILURE = re.compile(r"Root Cause .*?rank +: (\d+).*?exitcode +: (\S+)", re.DOTALL)
_OF_TORCHRUN = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
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
            self._end = (self._end + chunk)[-MAX_BYTES:]


def shorten(output: str) -> str:
    """Return the last traceback without the frames of Python, its packages and the probe; else the last lines.

    Of several ranks, it is that of the rank that failed first, and not the one of torchrun, which follows.
    """
    # A progress bar goes back to the start of its line, or up one with an escape sequence.
    lines = [line.rpartition("\r")[2].removeprefix("\x1b[A") for line in output.split("\n")]
    said: dict[str, str] = {}
    for line in lines:
        if line.strip() and not _LOG_OF_TORCHRUN.match(line):
            of_rank = _RANK.match(line)
            number, words = (of_rank[1], line[of_rank.end() :]) if of_rank else ("", line)
            said[number] = f"{said.get(number, '')}{words}\n"
    failure = _FIRST_FAILURE.search(output)
    first, exit_code = failure.groups() if failure else ("", "")
    traces = {rank: trace for rank, text in said.items() if (trace := _last_trace(text))}
    if traces:
        guilty = min(traces, key=lambda each: (CONSEQUENCE in traces[each], each != first, not each))
        whose = guilty or first
        return (f"rank {whose}:\n" if whose else "") + traces[guilty]
    tail = said.get("", "").partition(_START)[0] if failure else said.get("", "")
    return "\n".join(
        [*tail.splitlines()[-MAX_LINES:], *[f"rank {first} ended with exit code {exit_code}"] * bool(first)]
    )


def _last_trace(text: str) -> str:
    """Return the last traceback in a text, shortened, apart from torchrun's own; an empty text if there is none."""
    traces = [trace for trace in text.split(_START)[1:] if _OF_TORCHRUN not in trace]
    if not traces:
        return ""
    own = _FRAME.sub(lambda frame: "" if frame["file"].startswith(_FOREIGN) else frame[0], traces[-1])
    return (_START + (own if '  File "' in own else traces[-1])).strip()
