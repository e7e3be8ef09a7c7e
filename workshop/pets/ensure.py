"""Have a complete set of pictures on disk before the training starts: find it, else fetch it, else draw it."""

import os
import sys
from pathlib import Path

from workshop.errors import DataError, DownloadError
from workshop.pets.download import OFFLINE_VARIABLE, download, is_offline, why_unreachable
from workshop.pets.layout import SOURCE, photos_folder, stand_in_folder

ANSWER_WITHIN_S = 4.0


def ensure_pets(data: Path, dataset: str = "auto", source: str = SOURCE) -> Path:
    """Have a complete set under the data folder, and return its root, which `OxfordIIITPet` takes.

    Args:
        data: the data folder.
        dataset: "oxford-pets" for the photos, downloaded if they are not there; "stand-in" for the stand-in, drawn if
            it is not there; "auto" for the photos, or the stand-in where they cannot be had.
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
    try:
        if not photos_folder(data).exists():
            _require_answer(source)
        return ensure_photos(data, source)
    except DownloadError as error:
        reason = str(error)
    except OSError as error:
        if photos_folder(data).exists():
            raise
        # A folder that may not be written may still hold the stand-in.
        reason = f"{error.filename or data}: {error.strerror}"
    root = ensure_stand_in(data)
    how = photos_folder(data).command
    print(f"Using drawn stand-in pictures: {reason}. For the photos: {how}", file=sys.stderr)
    return root


def ensure_photos(data: Path, source: str = SOURCE) -> Path:
    """The root of the real set, downloaded if nothing of it is there.

    Raises:
        DataError: the set in place is incomplete or cannot be fetched, or `data` is a set itself.
        OSError: the data folder cannot be written.
    """
    _require_data_folder(data)
    folder = photos_folder(data)
    if not folder.exists():
        download(data, source)
    folder.require_complete()
    return folder.root


def ensure_stand_in(data: Path) -> Path:
    """The root of the stand-in, drawn if nothing of it is there.

    Raises:
        DataError: the stand-in in place is incomplete, or `data` is a set itself.
        OSError: the data folder cannot be written.
    """
    _require_data_folder(data)
    folder = stand_in_folder(data)
    if not folder.exists():
        from workshop.pets import stand_in  # NumPy and Pillow are loaded only to draw

        stand_in.make(folder)
    folder.require_complete()
    return folder.root


def _require_data_folder(data: Path) -> None:
    """A set must not be drawn or fetched into another one."""
    if (data / "annotations" / "trainval.txt").is_file():
        parent = Path(os.path.realpath(data)).parent
        raise DataError(f"{data} is a set of pictures itself; name the folder that holds it: {parent}")


def _require_answer(source: str) -> None:
    if is_offline():
        raise DownloadError(f"{OFFLINE_VARIABLE} forbids the network")
    if reason := why_unreachable(source, ANSWER_WITHIN_S):
        raise DownloadError(f"{source} cannot be reached ({reason})")
