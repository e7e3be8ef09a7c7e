"""The small result that every format can show: what was found, and in which lines."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class ReportedLine:
    """A line, and why it is slow."""

    file: str
    """The path, relative to the repository where it is inside; empty if no line is to blame."""
    line: int | None
    cause: str
    """A stable name, such as "slow-item"."""
    words: str
    """What was found, in a sentence or two."""
    gain: float | None = None
    """The speedup that fixing it could bring; None if that is not known."""


@dataclass(frozen=True)
class Report:
    """What an instrument has found out."""

    subject: str
    """The script."""
    headline: str
    """The result in a few words."""
    level: Level
    cause: str
    """A stable name for the result as a whole, such as "slower-script"."""
    sentences: tuple[str, ...]
    """The result in whole, the most important first."""
    lines: tuple[ReportedLine, ...]
    file: str = ""
    """The path of the script, as that of a line; empty if it is not known."""


def in_repository(path: str) -> str:
    """Return a path relative to the top folder of the repository that it is in, with forward slashes.

    A path that is in no repository is relative to the current folder if it is inside, and else as it is.
    """
    if not path:
        return path
    real = Path(os.path.realpath(path))
    tops = [folder for folder in real.parents if (folder / ".git").exists()]
    for folder in [*tops[:1], Path(os.path.realpath("."))]:
        if real.is_relative_to(folder):
            return real.relative_to(folder).as_posix()
    return real.as_posix()
