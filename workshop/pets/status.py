"""Which sets of pictures lie on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workshop.errors import DataError
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
    return [
        _status("photos", photos_folder(data), "fetched by a run that wants them"),
        _status("stand-in", stand_in_folder(data), "drawn by a run that wants it"),
    ]


def _status(name: str, folder: PetFolder, otherwise: str) -> SetStatus:
    try:
        if not folder.exists():
            return SetStatus(name, "absent", f"not yet in {folder.base}", f"{otherwise}, or by: {folder.command}")
        folder.require_complete()
    except DataError as error:
        found, _, remedy = str(error).partition("; ")
        return SetStatus(name, "incomplete", found, remedy)
    except OSError as error:  # as where it belongs to somebody else
        remedy = "name a data folder that you may read with --data"
        return SetStatus(name, "incomplete", f"{error.filename} cannot be read: {error.strerror}", remedy)
    counts = ", ".join(f"{len(folder.image_ids(split))} {split}" for split in SPLITS)
    return SetStatus(name, "complete", f"{counts} in {folder.base}")
