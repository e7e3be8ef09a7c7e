"""The connection between a watched script and the process that watches it; both ends are of the same kind."""

import fcntl
import os
import select
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from workshop.probe import wire
from workshop.probe.settings import ProbeConfig

RANK = "LOCAL_RANK"
"""The environment variable in which torchrun tells a process its rank among those of this machine."""

HIGH = 500
"""The probe moves its file descriptors up to this number, out of the way of a script that closes the first ones."""


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
        while not self.has_message:
            if not select.select([self._socket], [], [], timeout_s)[0]:
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


def claim(config: ProbeConfig) -> Connection | None:
    """Claim the script's end for this process; return None if another process of the run, or of the rank, already has.

    A script that nobody watches any more ends: its training is of no use to anybody.
    """
    if config.ranks and rank_of(config) is None:  # torchrun
        return None
    try:
        claimed = os.path.join(events_folder(config), f"{config.run_index}.claimed")
        os.close(os.open(claimed, os.O_CREAT | os.O_EXCL, 0o600))
        end = _connected(config.ranks) if config.ranks else socket.socket(fileno=_high(config.control))
    except OSError:
        return None
    return Connection(end, _end_process)


def rank_of(config: ProbeConfig) -> int | None:
    """Return the rank that this process trains as, or loads for; None in a run of one process, and in torchrun."""
    return int(os.environ[RANK]) if config.ranks and RANK in os.environ else None


def events_folder(config: ProbeConfig) -> str:
    """Return the folder that this process writes to: each rank has its own, which its workers share."""
    if (rank := rank_of(config)) is None:
        return config.folder
    folder = os.path.join(config.folder, f"rank{rank}")
    os.makedirs(folder, exist_ok=True)
    return folder


def _connected(path: str) -> socket.socket:
    with socket.socket(socket.AF_UNIX) as low:
        low.connect(path)
        return socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH))


def _high(descriptor: int) -> int:
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
    os.close(descriptor)
    return high


def _end_process(why: ClosedError) -> NoReturn:
    print(f"the process that watches this script cannot be reached: {why}", file=sys.stderr, flush=True)
    os._exit(1)
