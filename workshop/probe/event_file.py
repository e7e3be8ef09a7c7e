"""The files in which the processes of a watched script note what they do."""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic  # the script may replace that of the module
from typing import Any

from workshop.probe import wire
from workshop.probe.connection import moved_up
from workshop.probe.events import Event

LOST = ".lost"
"""The end of the name of a link that says why a process could not note something."""


_is_muted = False


def mute() -> None:
    """Note nothing more in this process: what it does is not the script's own work."""
    global _is_muted
    _is_muted = True


def is_muted() -> bool:
    """Return whether nothing is noted in this process."""
    return _is_muted


class EventFile:
    """Appends the events of this process to a file of its own; a forked process goes on in another file.

    It runs inside of the script's own calls, such as `open`, which must not fail because of it. What cannot be noted is
    lost, and that is told to whoever reads the events.

    Args:
        folder: where the files are.
        also_muted: whether something is noted, too, that is not the script's own work.
    """

    def __init__(self, folder: str, also_muted: bool = False) -> None:
        self.folder, self._also_muted = folder, also_muted
        self._pid, self._file = 0, -1

    def write(self, kind: type[Event], **fields: Any) -> None:
        """Append an event of the present time and thread, in one piece: other threads may do the same."""
        if _is_muted and not self._also_muted:
            return
        try:
            pid = os.getpid()
            if self._pid != pid:
                path = os.path.join(self.folder, f"{pid}.jsonl")
                self._file = moved_up(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
                self._pid = pid  # last: a thread that sees it writes to the file
            event = kind(t=monotonic(), pid=pid, thread=threading.get_ident(), **fields)
            line = wire.encode(event).encode() + b"\n"
            if os.write(self._file, line) < len(line):
                raise OSError("No space left for all of an event")
        except Exception as error:
            self.lose(error)

    def lose(self, error: Exception) -> None:
        """Have it known that something of this process could not be noted.

        A link needs no file descriptor and, if it is short, no room on the disk: it can be made where a file cannot.
        """
        with suppress(
            Exception
        ):  # it is there already, or the folder is gone, or an exception of the script's has no words
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            os.symlink(why[:50].replace("\0", ""), os.path.join(self.folder, f"{os.getpid()}{LOST}"))

    def note_opened(self, note: Callable[[str, Any, Any], None]) -> None:
        """Call a function with the path, mode and flags of each file that this process opens from now on."""

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "open" or len(arguments) < 3 or not isinstance(arguments[0], (str, bytes, os.PathLike)):
                return
            try:
                note(os.fsdecode(arguments[0]), arguments[1], arguments[2])
            except (OSError, ValueError, TypeError):  # it is no path, as whoever opens it will be told
                pass
            except Exception as error:
                self.lose(error)

        sys.addaudithook(hook)


def why_lost(folder: Path) -> str:
    """Return why a process could not note all events in a folder; an empty text if none was lost."""
    return next((os.readlink(path) for path in folder.glob(f"*{LOST}")), "")
