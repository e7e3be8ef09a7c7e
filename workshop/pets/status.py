"""Which sets of pictures lie on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workshop.errors import DataError
from workshop.pets.download import OFFLINE_VARIABLE, is_offline
from workshop.pets.layout import SPLITS, PetFolder, photos_folder, stand_in_folder


@dataclass(frozen=True)
class SetStatus:
    """The state of one set under the data folder: what was found of it, and what to do if that is not enough."""

    name: str
    state: Literal["complete", "incomplete", "absent"]
    found: str
    remedy: str = ""


def report(data: Path) -> list[SetStatus]:
    """Return the state of the photos and of the stand-in under a data folder."""
    wanted, before = "fetched (0.8 GB) by the first run that wants them", ""
    if is_offline():
        wanted, before = f"{OFFLINE_VARIABLE} is set: runs take the stand-in", f"unset {OFFLINE_VARIABLE} && "
    return [
        _status("photos", photos_folder(data), wanted, before),
        _status("stand-in", stand_in_folder(data), "drawn by the first run that wants it"),
    ]


def _status(name: str, folder: PetFolder, otherwise: str, before: str = "") -> SetStatus:
    try:
        if not folder.exists():
            return SetStatus(
                name, "absent", f"not in {folder.base}; {otherwise}", f"to have it now: {before}{folder.command}"
            )
        folder.require_complete()
    except DataError as error:
        found, _, remedy = str(error).partition("; ")
        return SetStatus(name, "incomplete", found, remedy)
    except OSError as error:  # as where it belongs to somebody else
        remedy = "name a data folder that you may read with --data"
        return SetStatus(name, "incomplete", f"{error.filename} cannot be read: {error.strerror}", remedy)
    counts = ", ".join(f"{len(folder.image_ids(split))} {split}" for split in SPLITS)
    return SetStatus(name, "complete", f"{counts} in {folder.base}")
