"""Notes the files that a process writes outside of the folders that are its own."""

import os
from collections.abc import Sequence
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.events import FileWritten

FEW = 20
"""The number of files whose names each process notes."""

_WRITING = os.O_WRONLY | os.O_RDWR


def watch_writes(own: Sequence[str], events: EventFile) -> None:
    """Make an event of each file that is opened to be written.

    Args:
        own: folders whose files are not of interest. Devices, and the caches of libraries, are never of interest.
        events: where the events go.
    """
    caches = (os.path.expanduser(each) for each in ("~/.cache", "~/.triton", "~/.config"))
    folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in (*own, *caches, "/dev", "/proc"))
    known: set[str] = set()

    def note(opened: str, mode: Any, flags: Any) -> None:
        if len(known) == FEW or not (set(mode) & set("wax+") if mode else (flags or 0) & _WRITING):
            return
        path = os.path.realpath(opened)
        if path in known or path.startswith(folders) or "__pycache__" in path:
            return
        known.add(path)
        events.write(FileWritten, path=path)

    events.note_opened(note)
