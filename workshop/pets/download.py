"""Fetches the Oxford-IIIT Pet set, resumes where an earlier try was cut off, and puts it in place when it is whole."""

import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

from filelock import Timeout

from workshop.errors import DownloadError
from workshop.pets.layout import BASE_FOLDER, OFFLINE_VARIABLE, SOURCE, is_offline
from workshop.pets.staging import progress_bar, staging_folder

ARCHIVES = {
    "annotations.tar.gz": "95a8c909bbe2e81eed6a22bccdf3f68f",
    "images.tar.gz": "5c4f3ee8e5d25df40f4fd59a7f44e54c",
}
"""The files at the source, with the MD5 checksums that the set's authors and torchvision give."""

SPACE_BYTES = 1_700_000_000
"""Bytes, at least, for the archives and the files unpacked from them, which exist side by side for a moment."""

_SILENCE_S = 10.0  # seconds, at most, in which a connection sends nothing
_PAUSE_S = 1.0  # seconds between two tries


def download(root: Path, source: str = SOURCE, archives: Mapping[str, str] = ARCHIVES) -> None:
    """Fetch both archives from `source`, an address or a folder, and unpack them under `root`.

    What has arrived stays in a hidden folder, from which another try goes on, until the set appears as a whole.

    Raises:
        DownloadError: the set cannot be fetched; nothing that looks like a set is left behind.
        OSError: `root` cannot be written.
    """
    try:
        with staging_folder(root, BASE_FOLDER, wait=False) as staging:
            _require_space(staging)
            if "://" in source:
                folder = staging
                _fetch_all(source, staging, archives)
            else:
                folder = Path(os.path.expanduser(source))
                _require_all(folder, archives)
            _unpack(folder, staging, archives)
            os.rename(staging / BASE_FOLDER, root / BASE_FOLDER)
            shutil.rmtree(staging)
    except Timeout:
        raise DownloadError(f"another process is downloading into {root}; wait for it to end") from None


def why_unreachable(source: str, within_s: float) -> str | None:
    """Return why `source` does not begin to send the archives within that many seconds; None if it does."""
    reasons: list[str | None] = []

    def ask() -> None:
        try:
            _open(f"{source}/{next(iter(ARCHIVES))}", 0, within_s).close()
            reasons.append(None)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(_reason(error))

    thread = threading.Thread(target=ask, daemon=True)  # because the look-up of a host's name takes no time limit
    thread.start()
    thread.join(within_s)
    timed_out = not reasons or reasons[0] == "timed out"
    return f"no answer within {within_s:g} s" if timed_out else reasons[0]


def _fetch_all(source: str, staging: Path, archives: Mapping[str, str]) -> None:
    if is_offline():
        raise DownloadError(f"the network is forbidden by {OFFLINE_VARIABLE}; unset it, or name a folder with --from")
    print("Fetching the Oxford-IIIT Pet photos (0.8 GB). Ctrl-C stops it, the next try goes on.", file=sys.stderr)
    for name, md5 in archives.items():
        target = staging / name
        if not _is_right(target, md5):
            _fetch(f"{source.rstrip('/')}/{name}", target)
        if not _is_right(target, md5):
            target.unlink()  # another try cannot go on from it
            problem = "is not the archive it should be, or was damaged on the way, and is deleted"
            raise DownloadError(f"{source}/{name} {problem}; try again, or another source with --from")


def _fetch(url: str, target: Path) -> None:
    """Download a file, going on from the part that is there."""
    fruitless = 0
    while True:
        before = _size(target)
        try:
            _fetch_rest(url, target)
            return
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # the file is complete; the checksum tells whether it is right
            raise DownloadError(f"{url} answers {error.code} {error.reason}") from error
        except ValueError as error:  # also http.client.InvalidURL and UnicodeError
            raise DownloadError(f"{url} is no address to fetch from ({error})") from error
        except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            fruitless = 0 if _size(target) > before else fruitless + 1
            if fruitless == 3:  # tries in a row without a single byte
                kept = f"; {_size(target) / 1e6:.1f} MB have arrived and are kept" if _size(target) else ""
                raise DownloadError(f"{url} cannot be fetched ({_reason(error)}){kept}; try again later") from error
            time.sleep(_PAUSE_S)


def _fetch_rest(url: str, target: Path) -> None:
    """Download the part of a file that is not there yet."""
    start = _size(target)
    with _open(url, start, _SILENCE_S) as response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0  # the server cannot resume: the same bytes are written once more
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        bar = progress_bar(desc=target.name, initial=start, total=total, unit="B", unit_scale=True)
        target.touch()
        with open(target, "r+b") as file, bar:
            file.seek(start)
            while chunk := _read(response):
                file.write(chunk)
                bar.update(len(chunk))
    if total is not None and _size(target) < total:
        raise ConnectionError("the connection was cut")  # which the standard library takes for the end


def _open(url: str, start: int, silence_s: float) -> http.client.HTTPResponse:
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("it begins with neither http:// nor https://")
    headers = {"User-Agent": "profiling-workshop"} | ({"Range": f"bytes={start}-"} if start else {})
    response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=silence_s)
    if "html" in response.headers.get("Content-Type", ""):
        raise ConnectionError("a web page came instead, perhaps a network's login page")
    return response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(1 << 16)
    except OSError as error:  # a network fails in many ways, none of which is to be confused with a full disk
        raise ConnectionError(_reason(error)) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _require_all(folder: Path, archives: Mapping[str, str]) -> None:
    for name, md5 in archives.items():
        path = folder / name
        if not path.is_file():
            raise DownloadError(f"there is no {path}; name a folder that holds it, or an address (http://...)")
        if not _is_right(path, md5):
            raise DownloadError(f"{path} is damaged, its MD5 checksum is not {md5}; copy it again")


def _is_right(path: Path, md5: str) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5


def _unpack(folder: Path, staging: Path, names: Iterable[str]) -> None:
    shutil.rmtree(staging / BASE_FOLDER, ignore_errors=True)  # an earlier try may have died half-way
    for name in names:
        with tarfile.open(folder / name) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it since 3.11.4
            tar.extractall(staging / BASE_FOLDER, progress_bar(tar, desc=f"Unpacking {name}", unit=" files"))


def _require_space(staging: Path) -> None:
    arrived_bytes = sum(path.stat().st_size for path in staging.glob("*.tar.gz"))
    free_bytes = shutil.disk_usage(staging).free
    if free_bytes < SPACE_BYTES - arrived_bytes:
        needed = f"the set needs {SPACE_BYTES / 1e9:.1f} GB"
        raise DownloadError(f"{needed}, and {staging.parent} has {free_bytes / 1e9:.1f} GB free")
