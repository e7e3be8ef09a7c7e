"""The files that a class gets from the room: found by name alone, each with its hash, and an index for pip."""

import hashlib
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote, urlsplit

from workshop.pets.download import ARCHIVES
from workshop.room.store import Store

SUMS = "SHA256SUMS"
"""The name under which the hashes of all files are served, as `sha256sum --check` reads them."""

SOURCE = "workshop.tar.gz"
"""The archive of the workshop's folder, if it is shared."""

_PACKAGE = re.compile(r"(?P<project>.+?)-\d[^-]*(?:-.+)?\.(?:whl|tar\.gz|zip)")


@dataclass(frozen=True)
class SharedFile:
    """A file that is served."""

    name: str
    path: Path
    size: int
    sha256: str

    @property
    def project(self) -> str:
        """The project that a package is of, as pip spells it; "" for a file that is none."""
        found = _PACKAGE.fullmatch(self.name)
        return normalised(found["project"]) if found else ""


class SharedFiles:
    """The files of a folder and its subfolders.

    A request names a file, never a path: what is not among the files that were found is not there. Neither hidden files
    are, nor links that lead out of the folder.

    Args:
        folder: the folder; None for no files.
        with_store: calls the store where it may be called; it knows the hashes of earlier days.
    """

    def __init__(self, folder: Path | None, with_store: Callable[[Callable[[Store], object]], object]) -> None:
        self._folder = folder and folder.resolve()
        self._with_store = with_store
        self._files: dict[str, SharedFile] = {}
        """It is replaced and never changed: requests go through it while another thread looks into the folder."""
        self._looking = threading.Lock()

    def get(self, name: str) -> SharedFile | None:
        """Return the file of this name."""
        return self._files.get(name)

    def commands(self, address: str) -> list[tuple[str, str]]:
        """Return what there is for a class, in a word, and the command that gets it from the room at an address."""
        found = []
        if SOURCE in self._files:
            found.append(
                ("Workshop", f"curl -f {address}/files/{SOURCE} | tar -xz && cd {SOURCE.removesuffix('.tar.gz')}")
            )
        if "torch" in self.projects():
            host = urlsplit(address).hostname
            trusted = f" --trusted-host {host}" if address.startswith("http:") else ""
            found.append(("Packages", f"pip install --index-url {address}/simple/{trusted} -e ."))
        if ARCHIVES.keys() <= self._files.keys():
            found.append(("Photos", f"workshop data download --from {address}/files"))
        return found

    def look(self) -> None:
        """Find what has come, changed or gone. A big file takes a while to appear: its hash is needed."""
        with self._looking:
            paths = self._paths()
            self._files = {name: each for name, each in self._files.items() if name in paths}
            for name, path in paths.items():
                with suppress(OSError, UnicodeError):  # it has gone, or may not be read, or its name is not UTF-8
                    self._look_at(name, path)

    def sums(self) -> str:
        """Return a line with hash and name for each file."""
        return "".join(f"{each.sha256}  {name}\n" for name, each in sorted(self._files.items()))

    def projects(self) -> list[str]:
        """Return the projects that there are packages of."""
        return sorted({file.project for file in self._files.values()} - {""})

    def index(self) -> str:
        """Return the page of pip's index that lists the projects."""
        return _page("Packages", [(f"{name}/", name) for name in self.projects()])

    def index_of(self, project: str) -> str | None:
        """Return the page of pip's index that lists a project's packages, with their hashes; None if there are none."""
        found = [file for file in self._files.values() if file.project == normalised(project)]
        links = [(f"../../files/{quote(each.name)}#sha256={each.sha256}", each.name) for each in found]
        return _page(project, sorted(links)) if links else None

    def _paths(self) -> dict[str, Path]:
        """Return the path of each name; of several with one name, the first."""
        if self._folder is None:
            return {}
        found: dict[str, Path] = {}
        for path in sorted(self._folder.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(self._folder).parts)
            if not hidden and path.is_file() and path.resolve().is_relative_to(self._folder):
                found.setdefault(path.name, path)
        return found

    def _look_at(self, name: str, path: Path) -> None:
        status = path.stat()
        size, changed_ns, known = status.st_size, status.st_mtime_ns, self._files.get(name)
        kept = self._with_store(lambda store: store.hash_of(path, size, changed_ns))
        if known and (known.path, known.size, known.sha256) == (path, size, kept):
            return
        if not isinstance(kept, str):
            with open(path, "rb") as file:
                kept = sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if path.stat().st_mtime_ns != changed_ns:
                return  # it is being written: the next look will find it
            self._with_store(lambda store: store.keep_hash(path, size, changed_ns, sha256))
        self._files = self._files | {name: SharedFile(name, path, size, kept)}


def normalised(project: str) -> str:
    """Return the name of a project as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", project).lower()


def _page(title: str, links: list[tuple[str, str]]) -> str:
    items = "".join(f'<a href="{escape(target)}">{escape(text)}</a><br>\n' for target, text in links)
    return f"<!DOCTYPE html>\n<html><head><title>{escape(title)}</title></head><body>\n{items}</body></html>\n"
