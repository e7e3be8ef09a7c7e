"""Fetch the Oxford-IIIT Pet set, resuming where an earlier try was cut off, and put it in place when it is whole."""

import hashlib
import http
import http.client
import os
import shutil
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout
from tqdm import tqdm

from workshop.errors import DownloadError
from workshop.pets.layout import BASE_FOLDER, SOURCE
from workshop.pets.staging import staging_folder

OFFLINE_VARIABLE = "WORKSHOP_OFFLINE"
"""Set in the environment, to anything but 0, it forbids the network."""


@dataclass(frozen=True)
class Archive:
    """A file at the source; `md5` as the set's authors and torchvision give it."""

    name: str
    md5: str


ARCHIVES = (
    Archive("annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"),
    Archive("images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
)
SPACE_BYTES = 1_700_000_000
"""The archives and what is unpacked from them, side by side for a moment."""

_CHUNK_BYTES = 1 << 16
_SILENCE_S = 10.0  # a connection that says nothing for so long is given up
_TRIES = 3  # in a row that bring not one byte
_PAUSE_S = 1.0  # between two of them


def is_offline() -> bool:
    """Whether the environment forbids the network."""
    return os.environ.get(OFFLINE_VARIABLE, "0") not in ("", "0")


def download(root: Path, source: str = SOURCE, archives: tuple[Archive, ...] = ARCHIVES) -> None:
    """Fetch both archives from `source`, an address or a folder, and unpack them under `root`.

    What has arrived stays in a hidden folder beside the set until the set is whole, so that a further try goes on from
    there; the set itself appears in one step.

    Raises:
        DownloadError: with the reason; nothing that looks like a set is left behind.
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
                for archive in archives:
                    _require_right(folder / archive.name, archive)
            _unpack(folder, staging, archives)
            os.rename(staging / BASE_FOLDER, root / BASE_FOLDER)
            shutil.rmtree(staging)
    except Timeout:
        raise DownloadError(f"another process is downloading into {root}; wait for it to end") from None


def why_unreachable(source: str, within_s: float) -> str | None:
    """Why `source` does not begin to send the archives within that many seconds; None if it does.

    A thread, because the look-up of a host's name takes no time limit.
    """
    reasons: list[str | None] = []

    def ask() -> None:
        try:
            _open(f"{source}/{ARCHIVES[0].name}", 0, within_s).close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(_reason(error))
        else:
            reasons.append(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(within_s)
    return reasons[0] if reasons else f"no answer within {within_s:g} s"


def _fetch_all(source: str, staging: Path, archives: tuple[Archive, ...]) -> None:
    if is_offline():
        raise DownloadError(f"the network is forbidden by {OFFLINE_VARIABLE}; unset it, or name a folder with --from")
    print("Fetching the Oxford-IIIT Pet photos (0.8 GB). Ctrl-C stops it, the next try goes on.", file=sys.stderr)
    for archive in archives:
        target = staging / archive.name
        if not _is_right(target, archive):
            _fetch(f"{source.rstrip('/')}/{archive.name}", target)
        if not _is_right(target, archive):
            target.unlink()  # there is nothing in it to go on from
            problem = "is not the archive it should be, or was damaged on the way, and is deleted"
            raise DownloadError(f"{source}/{archive.name} {problem}; try again, or another source with --from")


def _fetch(url: str, target: Path) -> None:
    """Bring `target` to its full length, going on from what is there."""
    fruitless = 0
    while True:
        before = _size(target)
        try:
            _fetch_rest(url, target)
            return
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # there is no more to come; the checksum tells whether it is right
            raise DownloadError(f"{url} answers {error.code} {error.reason}") from error
        except ValueError as error:  # http.client.InvalidURL and UnicodeError are of the kind
            raise DownloadError(f"{url} is no address to fetch from ({error})") from error
        except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            fruitless = 0 if _size(target) > before else fruitless + 1
            if fruitless == _TRIES:
                kept = f"; {_size(target) / 1e6:.1f} MB have arrived and are kept" if _size(target) else ""
                raise DownloadError(f"{url} cannot be fetched ({_reason(error)}){kept}; try again later") from error
            time.sleep(_PAUSE_S)


def _fetch_rest(url: str, target: Path) -> None:
    """Append what is still to come.

    Raises:
        ConnectionError: it ended early, of which the standard library says nothing.
    """
    start = _size(target)
    with _open(url, start, _SILENCE_S) as response:
        # A server that cannot go on from there sends all from the beginning: what is here already is passed over.
        here_already = 0 if response.status == http.HTTPStatus.PARTIAL_CONTENT else start
        length = response.headers.get("Content-Length")
        total = start - here_already + int(length) if length else None
        bar = tqdm(desc=target.name, initial=start, total=total, unit="B", unit_scale=True)
        with open(target, "ab") as file, bar:
            while chunk := _read(response):
                new = chunk[here_already:]
                here_already -= len(chunk) - len(new)
                file.write(new)
                bar.update(len(new))
    if total is not None and _size(target) < total:
        raise ConnectionError("the connection was cut")


def _open(url: str, start: int, silence_s: float) -> http.client.HTTPResponse:
    headers = {"User-Agent": "profiling-workshop"} | ({"Range": f"bytes={start}-"} if start else {})
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError("it begins with neither http:// nor https://")
    response: http.client.HTTPResponse
    response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=silence_s)
    if "html" in (response.headers.get("Content-Type") or ""):
        raise ConnectionError("a web page came instead, perhaps a network's login page")
    return response


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except OSError as error:  # a network may go in many ways; a full disk must not be taken for one of them
        raise ConnectionError(_reason(error)) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _require_right(path: Path, archive: Archive) -> None:
    if not path.is_file():
        raise DownloadError(f"there is no {path}; name a folder that holds it, or an address (http://...)")
    if not _is_right(path, archive):
        raise DownloadError(f"{path} is damaged, its MD5 checksum is not {archive.md5}; copy it again")


def _is_right(path: Path, archive: Archive) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == archive.md5


def _unpack(folder: Path, staging: Path, archives: tuple[Archive, ...]) -> None:
    shutil.rmtree(staging / BASE_FOLDER, ignore_errors=True)  # an earlier try may have died half-way
    for archive in archives:
        with tarfile.open(folder / archive.name) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it since 3.11.4
            tar.extractall(staging / BASE_FOLDER, tqdm(tar, desc=f"Unpacking {archive.name}", unit=" files"))


def _require_space(staging: Path) -> None:
    arrived = sum(path.stat().st_size for path in staging.glob("*.tar.gz"))
    free = shutil.disk_usage(staging).free
    if free < SPACE_BYTES - arrived:
        raise DownloadError(
            f"the set needs {SPACE_BYTES / 1e9:.1f} GB, and {staging.parent} has {free / 1e9:.1f} GB free"
        )
