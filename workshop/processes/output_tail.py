"""The end of what a process prints."""

import os
import threading
from collections import deque
from typing import IO

MOST_BYTES = 20_000
"""The number of bytes that are kept."""


class OutputTail:
    """Reads everything that a process prints, so that it never has to wait, and keeps the end of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._chunks: deque[bytes] = deque()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return the end of what was printed, once all writers have ended, or after a second."""
        self._thread.join(timeout=1.0)  # a process that has escaped may still hold the pipe open
        return b"".join(self._chunks)[-MOST_BYTES:].decode(errors="replace")

    def _read(self) -> None:
        kept = 0
        while chunk := os.read(self._stream.fileno(), 65536):
            self._chunks.append(chunk)
            kept += len(chunk)
            while kept - len(self._chunks[0]) > MOST_BYTES:
                kept -= len(self._chunks.popleft())
