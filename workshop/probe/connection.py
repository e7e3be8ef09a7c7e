"""The connection between a process of a watched script and the process that watches it; both ends are of one kind."""

import fcntl
import os
import select
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from workshop.probe import wire
from workshop.probe.log import log
from workshop.probe.settings import ProbeConfig


class ClosedError(Exception):
    """The other end of a connection is gone."""


def _raise(error: ClosedError) -> NoReturn:
    raise error


class Connection:
    """One end: messages of `wire` go out and come in.

    Args:
        end: a socket.
        on_closed: called when the other end is gone, and does not return; by default it raises a `ClosedError`.
    """

    def __init__(self, end: socket.socket, on_closed: Callable[[ClosedError], NoReturn] = _raise) -> None:
        self._socket, self._on_closed = end, on_closed
        self._received = b""

    def send(self, message: Any) -> None:
        """Send a message."""
        try:
            self._socket.sendall(wire.encode(message).encode() + b"\n")
        except OSError as error:
            self._on_closed(ClosedError(str(error)))

    def receive(self, timeout_s: float | None = None) -> Any:
        """Return the next message, or None if the time is over before there is one."""
        poll = select.poll()  # select takes no descriptor above 1023
        poll.register(self._socket, select.POLLIN)
        while not self.has_message:
            if not poll.poll(None if timeout_s is None else 1000 * timeout_s):
                return None
            self.take()
        line, _, self._received = self._received.partition(b"\n")
        return wire.decode(line)

    @property
    def has_message(self) -> bool:
        """Whether a message has been received that nobody has asked for yet."""
        return b"\n" in self._received

    def take(self) -> None:
        """Wait for more of what the other end sends."""
        try:
            received = self._socket.recv(65536)
        except OSError:
            received = b""
        if not received:
            self._on_closed(ClosedError("the other end was closed"))
        self._received += received

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor, so that several connections can be waited for."""
        return self._socket.fileno()


def connect(config: ProbeConfig) -> Connection:
    """Connect this process to the one that watches the script.

    A script that nobody watches any more ends: its training is of no use to anybody.

    Raises:
        OSError: nobody listens.
    """
    low = socket.socket(socket.AF_UNIX)
    low.connect(config.socket)
    log("connected to the process that watches this script")
    return Connection(socket.socket(fileno=moved_up(low.detach())), _end_process)


def claim(config: ProbeConfig) -> Connection | None:
    """Connect if this is the first process of a run to ask; return None in any other."""
    try:
        os.close(os.open(os.path.join(config.folder, f"{config.run_index}.claimed"), os.O_CREAT | os.O_EXCL, 0o600))
        return connect(config)
    except OSError:
        return None


def moved_up(descriptor: int) -> int:
    """Return a copy of a file descriptor that a script which closes the low ones leaves alone; close the descriptor."""
    for lowest in (500, 200, 100):  # a Mac's shell allows 256
        try:
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:  # the process may not have as many
            continue
        os.close(descriptor)
        return high
    os.set_inheritable(descriptor, False)
    return descriptor


def _end_process(why: ClosedError) -> NoReturn:
    print(f"the process that watches this script cannot be reached: {why}", file=sys.stderr, flush=True)
    os._exit(1)
