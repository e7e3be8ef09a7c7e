"""Tells by its beginning what a file is, and which command reads it: for whoever was given one of another kind."""

import re
import shlex
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.notebooks.notebook_file import NOTEBOOK_SUFFIX, read

HEAD_BYTES = 1 << 16
"""Bytes, at most: so much of a file's beginning is looked at."""

GZIP = b"\x1f\x8b"


TEXTS = (".cfg", ".csv", ".ini", ".log", ".md", ".rst", ".toml", ".txt", ".yaml", ".yml")
"""The ends of the names of texts that are no Python, though some of them could be read as such."""


@dataclass(frozen=True)
class FileKind:
    """A kind of files."""

    name: str
    """What such a file is, with its article."""
    is_one: Callable[[Path, bytes], object]
    """Tells by the path and the beginning of a file whether it is one."""
    command: str = ""
    """What to do with one, in which {} is the path; empty where no command here reads it."""


def _begins(pattern: bytes) -> Callable[[Path, bytes], object]:
    found = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    return lambda path, head: found.match(head)


def _has(pattern: bytes, *suffixes: str) -> Callable[[Path, bytes], object]:
    found = re.compile(pattern)
    return lambda path, head: path.name.endswith(suffixes) or found.search(head)


READS_IT = "workshop {} {{}} reads it"

SCRIPT = FileKind("a Python script", lambda path, head: path.suffix in (".py", ".pyw"))
EMPTY = FileKind("empty", lambda path, head: not head)
NOTEBOOK = FileKind("a notebook", _has(rb'"nbformat"', NOTEBOOK_SUFFIX))
LINE_PROFILE = FileKind("a line profile", _begins(rb"\x80.{0,99}LineStats"), READS_IT.format("lines"))
SNAPSHOT = FileKind("a memory snapshot of torch", _begins(rb"\x80.{0,99}segments"), READS_IT.format("memory"))
TIMELINE = FileKind("a memory timeline of torch", _begins(rb"\s*\[\s*\[|<html>.{0,99}GPU Memory Timeline"))
TRACE = FileKind("a trace", _has(rb'"traceEvents"\s*:|\A\s*\[\s*\{[^}]*"ph"\s*:'), READS_IT.format("trace"))
SAMPLES = FileKind(
    "a recording of py-spy",
    _begins(rb'process \d+:"|[^\n]*\(\S+:\d+\) \d+\r?\n'),
    READS_IT.format("py-spy-report --file"),
)
REPORT = FileKind(
    "a report of nsys",
    lambda path, head: path.suffix in (".nsys-rep", ".qdrep"),
    "nsys export --type sqlite {} makes what workshop trace reads",
)
KINDS = (
    *(SCRIPT, EMPTY, NOTEBOOK, LINE_PROFILE, SNAPSHOT, TIMELINE, TRACE, SAMPLES, REPORT),
    FileKind("an SQLite database", _begins(rb"SQLite format 3\0"), "if nsys has made it, workshop trace {} reads it"),
    FileKind(
        "a profile for speedscope", _has(rb"speedscope\.app/file-format"), "open it at https://www.speedscope.app"
    ),
    FileKind("a page or a drawing", _begins(rb"\s*<(!doctype|\?xml|html|svg)"), "open it in a browser"),
    FileKind("a shell script", _begins(rb"#!\S*(/|/env )(ba|da|z|k)?sh\b")),
    FileKind("a file of torch.save, or an archive", _begins(rb"PK\x03\x04")),
    FileKind("a pickle", _begins(rb"\x80[\x02-\x05]")),
    FileKind("JSON of another kind", _begins(rb"\s*[\[{]")),
    FileKind("a binary file", _has(rb"\0")),
    FileKind("a text file", lambda path, head: path.suffix in TEXTS),
)
"""All kinds that are told apart; a file is of the first one that it may be."""


def kind_of(path: Path) -> FileKind | None:
    """Return what a file is; None if that is not known, as of any text."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return None
    return next((kind for kind in KINDS if kind.is_one(path, head)), None)


def wrong_kind(path: Path, wanted: str, otherwise: str) -> str:
    """Return what to say of a file that is not of the kind that was wanted, or is not there: what it is, what to do.

    Args:
        path: the file.
        wanted: what it is not, as "not a line profile".
        otherwise: what to do where no command reads what it is.
    """
    if not path.exists():
        return f"there is no file {path}; {otherwise}"
    kind = kind_of(path)
    it_is = f": it is {kind.name}" if kind else ""
    command = kind.command.format(shlex.quote(str(path))) if kind else ""
    return f"{path} is {wanted}{it_is}; {command or otherwise}"


def require_script(path: Path, otherwise: str = "name a Python script") -> None:
    """Check that a file may be a Python script, before somebody runs it as one: what its name tells, or else its text.

    A notebook is one, too, if there is something in it that can be run.

    Raises:
        WorkshopError: there is no such file, or it is something else.
    """
    if not path.is_file():
        raise WorkshopError(f"{path.absolute()} is not a file; {otherwise}")
    kind = kind_of(path)
    if kind is SCRIPT:
        return
    if path.suffix == NOTEBOOK_SUFFIX:
        read(path)
        return
    try:
        if kind is None:
            with warnings.catch_warnings(action="ignore"):
                compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
            return
    except (SyntaxError, ValueError):
        pass
    if kind is NOTEBOOK:
        otherwise = f"give it a name that ends in {NOTEBOOK_SUFFIX}"
    raise WorkshopError(wrong_kind(path, "not a Python script", otherwise))
