"""What waits to be sent: a file for each report, until the room has acknowledged it."""

from pathlib import Path

import msgspec

from workshop.course.state import State
from workshop.room.membership import write_whole
from workshop.room.posts import RoomReport

FOLDER = "outbox"


class Outbox:
    """The reports that wait beside a state."""

    def __init__(self, state: State) -> None:
        self.folder = state.path.with_name(FOLDER)

    def put(self, report: RoomReport) -> None:
        """Keep a report until it is sent.

        Raises:
            OSError: it cannot be kept; nothing of it is left.
        """
        if (waiting := len(self._paths())) >= 1000:  # a workshop has a few dozen
            raise OSError(f"{waiting} reports wait already")
        write_whole(self._path(report), msgspec.json.encode(report))

    def waiting(self) -> list[RoomReport]:
        """Return the reports that wait, the oldest first; a damaged file is deleted."""
        reports = []
        for path in self._paths():
            try:
                reports.append(msgspec.json.decode(path.read_bytes(), type=RoomReport))
            except FileNotFoundError:
                continue  # another check has sent it meanwhile
            except msgspec.DecodeError:
                path.unlink(missing_ok=True)
        return sorted(reports, key=lambda report: report.at)

    def remove(self, report: RoomReport) -> None:
        """Forget a report that the room has."""
        self._path(report).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all."""
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _path(self, report: RoomReport) -> Path:
        return self.folder / f"{report.id}.json"

    def _paths(self) -> list[Path]:
        return list(self.folder.glob("*.json"))
