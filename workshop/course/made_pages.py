"""The pages and pictures that commands have made in a folder, such as flame graphs: they name the command."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from workshop.pages.template import maker_of


@dataclass(frozen=True)
class MadePage:
    """A page that a command has made."""

    path: Path
    made_by: str
    """The command: "workshop flamegraph"."""
    title: str
    at: str
    """When it was written, in ISO format."""
    bytes: int


def find(folders: Iterable[Path], without: Iterable[str] = ()) -> list[MadePage]:
    """Return the pages in some folders, the oldest first; without those of some commands."""
    unique = dict.fromkeys(folder.resolve() for folder in folders)
    paths = [path for folder in unique for kind in ("*.html", "*.svg") for path in folder.glob(kind)]
    found = [each for each in map(_page, paths) if each and each.made_by not in without]
    return sorted(found, key=lambda each: (each.at, each.path))


def _page(path: Path) -> MadePage | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            made = maker_of(file.read(4000))  # which name the command and the title
        known = path.stat()
    except OSError:
        return None
    if made is None:
        return None
    at = datetime.fromtimestamp(known.st_mtime).astimezone().isoformat(timespec="seconds")
    return MadePage(path, *made, at, known.st_size)
