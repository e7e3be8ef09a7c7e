"""Notes the files that a process writes outside of the folders that are its own."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.events import FileWritten

FEW = 20
"""Of so many files the names are noted, for each process."""

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

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or len(known) == FEW or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        _, mode, flags = arguments
        if not (set(mode) & set("wax+") if mode else (flags or 0) & _WRITING):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path in known or path.startswith(folders) or "__pycache__" in path:
            return
        known.add(path)
        events.write(FileWritten, path=path)

    sys.addaudithook(hook)
