"""Have a complete set of pictures on disk before the training starts: find it, else fetch it, else draw it."""

import sys
import urllib.parse
from pathlib import Path

from workshop.errors import DataError, DownloadError
from workshop.pets.download import OFFLINE_VARIABLE, answers, download, is_offline
from workshop.pets.layout import BASE_FOLDER, SOURCE, photos_folder, stand_in_folder

ANSWER_WITHIN_S = 4.0


def ensure_pets(data: Path, dataset: str = "auto", source: str = SOURCE) -> Path:
    """Have a complete set under the data folder, and return its root, which `OxfordIIITPet` takes.

    Args:
        data: the data folder.
        dataset: "oxford-pets" for the photos, downloaded if they are not there; "stand-in" for the stand-in, drawn if
            it is not there; "auto" for the photos, or the stand-in where they cannot be had.
        source: where the photos come from, an address or a folder.

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
    except (DownloadError, OSError) as error:  # a folder that may not be written may still hold the stand-in
        root = ensure_stand_in(data)
        how = photos_folder(data).command
        print(f"Using drawn stand-in pictures: {error}. For the photos: {how}", file=sys.stderr)
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
    whole = data.resolve()
    if whole.name == BASE_FOLDER or ((whole / "images").is_dir() and (whole / "annotations").is_dir()):
        raise DataError(f"{data} is a set of pictures itself; name the folder that holds it: {whole.parent}")


def _require_answer(source: str) -> None:
    if is_offline():
        raise DownloadError(f"{OFFLINE_VARIABLE} forbids the network")
    if not answers(source, ANSWER_WITHIN_S):
        host = urllib.parse.urlsplit(source).hostname
        raise DownloadError(f"no answer from {host} within {ANSWER_WITHIN_S:.0f} s")
