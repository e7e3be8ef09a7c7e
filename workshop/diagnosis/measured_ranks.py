"""A run under torchrun that is measured: each of its ranks reports its steps, and is told the same."""

import contextlib
import math
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workshop.diagnosis.measured_script import MeasuredScript
from workshop.errors import WorkshopError
from workshop.probe.connection import ClosedError, Connection
from workshop.probe.settings import JudgedRun
from workshop.processes.script import LOOK_EVERY_S

MODULE = "torch.distributed.run"
"""What the command torchrun runs."""


class RankConnections(Connection):
    """The connections to all ranks, as if they were one.

    Args:
        listening: the socket that the ranks connect to.
    """

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening)
        self._listening = listening
        self._ranks: list[Connection] = []
        self._told: Any = None

    def send(self, message: Any) -> None:
        """Send all ranks a message; those that connect later are told, too."""
        self._told = message
        for rank in self._ranks:
            with contextlib.suppress(ClosedError):
                rank.send(message)

    def receive(self, timeout_s: float | None = None) -> Any:
        """Return the next message of any rank, or None if the time is over before there is one.

        Raises:
            ClosedError: the last rank has hung up.
        """
        give_up = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        while (left_s := give_up - time.monotonic()) > 0:
            for rank in [each for each in self._ranks if each.has_message]:
                self._ranks.append(self._ranks.pop(self._ranks.index(rank)))  # the others come first the next time
                return rank.receive()
            ends: list[socket.socket | Connection] = [self._listening, *self._ranks]
            for ready in select.select(ends, [], [], min(left_s, LOOK_EVERY_S))[0]:
                self._hear(ready)
        return None

    def close(self) -> None:
        """Close all of them."""
        for each in self._ranks:
            each.close()
        self._listening.close()

    def _hear(self, ready: socket.socket | Connection) -> None:
        if isinstance(ready, socket.socket):
            rank = Connection(ready.accept()[0])
            self._ranks.append(rank)
            if self._told is not None:
                rank.send(self._told)
            return
        try:
            ready.take()
        except ClosedError:
            self._ranks.remove(ready)
            ready.close()
            if not self._ranks:
                raise


class MeasuredRanks(MeasuredScript):
    """A run of torchrun on this machine.

    Args:
        command: the arguments of torchrun.
        folder: the folder for what the probe writes.
        work_folder: the folder it runs in.
        patience_s: how long all ranks may be silent.
    """

    def __init__(self, command: Sequence[str], folder: Path, work_folder: Path, patience_s: float) -> None:
        super().__init__(["-m", MODULE, *command], folder, work_folder, patience_s=patience_s)
        self.ranks = str(folder / "ranks")

    def start(self, judged: JudgedRun | None = None) -> None:
        """Start all ranks."""
        listening = socket.socket(socket.AF_UNIX)
        try:
            Path(self.ranks).unlink(missing_ok=True)
            listening.bind(self.ranks)
        except OSError as error:
            raise WorkshopError(f"{self.ranks}: {error}; set TMPDIR to a local folder with a short name") from None
        listening.listen()
        super().start(judged)
        self.connection.close()
        self.connection = RankConnections(listening)
