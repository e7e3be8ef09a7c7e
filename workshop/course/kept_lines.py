"""What is kept of a line profile: its hottest lines with their text, which the next run or edit would overwrite."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from workshop.course.progress import fingerprint
from workshop.errors import WorkshopError
from workshop.profiles import line_change, line_profile
from workshop.profiles.line_profile import LineProfile, same_file, source_now, why_stale
from workshop.profiles.line_tables import LineTable, tables


@dataclass(frozen=True)
class KeptLine:
    """A statement that took time."""

    line: int
    hits: int
    seconds: float
    share: float
    """Of the time of its function, from 0 to 1."""
    text: str


@dataclass(frozen=True)
class KeptFunction:
    """A function, with its hottest lines in the order of the file."""

    name: str
    seconds: float
    lines: tuple[KeptLine, ...]


@dataclass(frozen=True)
class KeptLines:
    """The hottest lines of a run of a script."""

    profile: str
    """The name of the file."""
    script: str
    """The name of the script."""
    fingerprint: str
    """A short hash of the script that ran."""
    at: str
    """When the profile was written: the local time with its distance from UTC, in ISO format."""
    command: str
    """The script with its arguments; "" where kernprof made the profile, which does not know."""
    functions: tuple[KeptFunction, ...]
    """The three hottest, the hottest first."""


def of_script(script: Path) -> list[KeptLines]:
    """Return what the line profiles of a script have, which lie beside it or here, the oldest first.

    Left out are those whose source is unknown: of kernprof, if the script was edited since.
    """
    folders = dict.fromkeys(folder.absolute() for folder in (script.parent, Path.cwd()))
    paths = {path for folder in folders for path in folder.glob("*.lprof")}
    return sorted((each for path in paths for each in _read(path, script)), key=lambda each: each.at)


def newest(script: Path, content: bytes) -> KeptLines | None:
    """Return the lines of the newest profile of a script with a content; None if there is none, or it has changed."""
    try:
        if script.read_bytes() != content:
            return None
    except OSError:
        return None
    known = _hash(source_now(script) or "")
    return next((lines for lines in reversed(of_script(script)) if lines.fingerprint == known), None)


def more_hits(before: KeptLines, after: KeptLines) -> float:
    """Return how many times as often the lines that both have ran after as before; 1 if about as often."""
    old, new = (
        {(f.name, line.text): line.hits for f in each.functions for line in f.lines} for each in (before, after)
    )
    return line_change.more_hits((old[line], new[line]) for line in old.keys() & new.keys())


def _read(path: Path, script: Path) -> Iterator[KeptLines]:
    try:
        profile = line_profile.read(path)
        source = _source(profile, script)
        found = tables(profile)
        at = datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    except (WorkshopError, OSError):
        return
    functions = tuple(function for each in found.values() for function in map(_function, each) if function.lines)
    if source is not None and functions:
        command = " ".join(profile.recorded.command) if profile.recorded else ""
        yield KeptLines(path.name, script.name, _hash(source), at, command, functions[:3])


def _source(profile: LineProfile, script: Path) -> str | None:
    """Return the source of the script that ran; None if it is unknown, or another script ran."""
    of_script = [function for function in profile.functions if function.lines and same_file(function.file, script)]
    if not of_script or (not profile.recorded and any(why_stale(profile, function, script) for function in of_script)):
        return None
    return profile.source(of_script[0].file)


def _function(table: LineTable) -> KeptFunction:
    """Return the ten hottest lines of a function, without imports, and those that have less than 1 % of its time."""
    hottest = sorted((row for row in table.rows if not row.is_import), key=lambda row: row.seconds, reverse=True)[:10]
    rows = sorted((row for row in hottest if row.share >= 0.01), key=lambda row: row.first)
    lines = tuple(KeptLine(row.first, row.hits, row.seconds, row.share, row.text) for row in rows)
    return KeptFunction(table.function.title, table.whole_s, lines)


def _hash(source: str) -> str:
    return fingerprint(source.encode())
