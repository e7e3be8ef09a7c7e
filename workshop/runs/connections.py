"""The connections to all processes of a script that have something to say, as if they were one."""

import contextlib
import os
import select
import socket
import time
from pathlib import Path
from typing import Any

from workshop.errors import WorkshopError
from workshop.probe.connection import ClosedError, Connection
from workshop.probe.log import log


class Connections:
    """Listens for the processes of a script, and hears them all.

    Args:
        folder: where the socket lies; its path may have 103 bytes on a Mac.
        several: whether to listen to more processes than the first.

    Attributes:
        path: that of the socket.
        gone: the processes that have hung up, if their messages name them.

    Raises:
        WorkshopError: there is no place for a socket.
    """

    def __init__(self, folder: Path, several: bool) -> None:
        self._several = several
        self.path = str(folder / "socket")
        self._listening: socket.socket | None = socket.socket(socket.AF_UNIX)
        self._open: list[Connection] = []
        self._pids: dict[Connection, int] = {}
        self.gone: set[int] = set()
        self._told: Any = None
        try:
            Path(self.path).unlink(missing_ok=True)
            self._listening.bind(self.path)
        except OSError as error:
            raise WorkshopError(f"{self.path}: {error}; set TMPDIR to a local folder with a short name") from None
        self._listening.listen()

    def send(self, message: Any) -> None:
        """Send a message to all processes; those that connect later get it, too."""
        self._told = message
        for each in self._open:
            with contextlib.suppress(ClosedError):
                each.send(message)

    def receive(self, timeout_s: float) -> Any:
        """Return the next message of any process, or None if the time is over before there is one.

        Raises:
            ClosedError: the only process that is listened to has hung up.
        """
        give_up = time.monotonic() + timeout_s
        while (left_s := give_up - time.monotonic()) > 0:
            for each in [one for one in self._open if one.has_message]:
                self._open.append(self._open.pop(self._open.index(each)))  # the others come first the next time
                message = each.receive()
                self._pids[each] = getattr(message, "pid", 0)
                return message
            ends: list[socket.socket | Connection] = [*([self._listening] if self._listening else []), *self._open]
            for ready in select.select(ends, [], [], left_s)[0]:
                self._hear(ready)
        return None

    def close(self) -> None:
        """Close all of them."""
        for each in self._open:
            each.close()
        if self._listening:
            self._listening.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _hear(self, ready: socket.socket | Connection) -> None:
        if isinstance(ready, Connection):
            self._take(ready)
            return
        connection = Connection(ready.accept()[0])
        log("a process of the script has connected")
        self._open.append(connection)
        if self._told is not None:
            with contextlib.suppress(ClosedError):  # it may have ended already; what it has said is there
                connection.send(self._told)
        if not self._several:
            ready.close()
            self._listening = None

    def _take(self, connection: Connection) -> None:
        try:
            connection.take()
        except ClosedError:
            log("a process of the script has hung up")
            self._open.remove(connection)
            self.gone.add(self._pids.pop(connection, 0))
            connection.close()
            if not self._several:
                raise
