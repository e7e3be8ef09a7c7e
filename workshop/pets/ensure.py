"""Ensures that a complete set of pictures is on disk before the training starts: finds, fetches or draws it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from workshop.errors import DataError, DownloadError
from workshop.pets import stand_in
from workshop.pets.download import download, why_unreachable
from workshop.pets.layout import SOURCE, PetFolder, is_offline, photos_folder, stand_in_folder


def ensure_pets(data: Path, dataset: str = "auto", source: str = SOURCE) -> Path:
    """Ensure that a complete set is under the data folder, and return its root, which `OxfordIIITPet` takes.

    Args:
        data: the data folder.
        dataset: "oxford-pets" for the photos, downloaded if they are not there; "stand-in" for the stand-in, drawn if
            it is not there; "auto" for the photos, or the stand-in where the photos cannot be downloaded, which is
            said, or must not be.
        source: the address that the photos come from.

    Raises:
        DataError: a set is in place but incomplete; the photos were asked for by name and cannot be fetched; `data`
            is a set itself.
        OSError: the data folder cannot be written.
    """
    if dataset == "stand-in":
        return ensure_stand_in(data)
    if dataset == "oxford-pets":
        return ensure_photos(data, source)
    photos = photos_folder(data)
    try:
        if not photos.exists():
            if is_offline():
                return ensure_stand_in(data)
            if problem := why_unreachable(source, within_s=4.0):
                raise DownloadError(f"{source} cannot be reached ({problem})")
        return ensure_photos(data, source)
    except DownloadError as error:
        reason = str(error)
    except OSError as error:
        if photos.exists():
            raise
        reason = f"{error.filename or data}: {error.strerror}"  # the folder may hold the stand-in nevertheless
    root = ensure_stand_in(data)
    print(
        f"Using generated pictures instead of photos ({reason}). For the photos:\n    {photos.command}", file=sys.stderr
    )
    return root


def ensure_photos(data: Path, source: str = SOURCE) -> Path:
    """Return the root of the photos, which are downloaded if nothing of them is there; raise as `ensure_pets` does."""
    return _ensure(data, photos_folder(data), lambda folder: download(folder.root, source))


def ensure_stand_in(data: Path) -> Path:
    """Return the root of the stand-in, which is drawn if nothing of it is there; raise as `ensure_pets` does."""
    return _ensure(data, stand_in_folder(data), stand_in.make)


def _ensure(data: Path, folder: PetFolder, make: Callable[[PetFolder], None]) -> Path:
    if (data / "annotations" / "trainval.txt").is_file():  # a set must not be made inside another one
        parent = Path(os.path.realpath(data)).parent
        raise DataError(f"{data} is a set of pictures itself; name the folder that holds it: {parent}")
    if not folder.exists():
        make(folder)
    folder.require_complete()
    return folder.root
