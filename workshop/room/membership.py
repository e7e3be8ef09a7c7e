"""Whether a participant has joined a room, and which; a file beside the script, which only its owner may read."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from workshop.course.state import State
from workshop.errors import WorkshopError

FILE = "room.json"


@dataclass(frozen=True)
class Membership:
    """What makes somebody a participant of a room."""

    address: str
    """The room's address, such as http://192.168.1.5:8000, without a slash at its end."""
    participant: str
    """The participant's id."""
    token: str
    """The secret that proves it."""
    name: str
    certificate: str = ""
    """The file with the certificate that the room's TLS is checked by; "" for those that the system trusts."""

    @classmethod
    def beside(cls, state: State) -> Self | None:
        """Return the membership that is kept beside a state; None for somebody who has not joined.

        Raises:
            WorkshopError: the file is there, and cannot be used.
        """
        path = path_beside(state)
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise WorkshopError(
                f"{path} cannot be used ({error}); workshop leave removes it, then join again"
            ) from None

    def keep(self, state: State) -> None:
        """Write the file as a whole.

        Raises:
            OSError: it cannot be written.
        """
        write_whole(path_beside(state), json.dumps(asdict(self)).encode())


def path_beside(state: State) -> Path:
    """Return the file of the membership that belongs to a state."""
    return state.path.with_name(FILE)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read: once this returns, it is on disk, and at no time is half of it there.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(f".{os.getpid()}")
    try:
        with open(os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        growing.replace(path)
    finally:
        growing.unlink(missing_ok=True)
