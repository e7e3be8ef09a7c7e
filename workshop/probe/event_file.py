"""The files in which the processes of a watched script note what they do."""

import os
import threading
import time
from typing import Any

from workshop.probe import wire
from workshop.probe.connection import moved_up
from workshop.probe.events import Event

_monotonic = time.monotonic  # the script may replace it


class EventFile:
    """Appends the events of this process to a file of its own; a forked process goes on in another file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid, self._file = 0, -1

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Append an event of the present time and thread, in one piece: other threads may do the same."""
        pid = os.getpid()
        if self._pid != pid:
            path = os.path.join(self.folder, f"{pid}.jsonl")
            self._file = moved_up(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
            self._pid = pid  # last: a thread that sees it writes to the file
        event = kind(t=_monotonic(), pid=pid, thread=threading.get_ident(), **fields)
        os.write(self._file, wire.encode(event).encode() + b"\n")
