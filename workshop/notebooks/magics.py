"""A cell as Python: lines that only IPython understands are replaced, so that each other line stays where it is.

Python itself tells which lines these are: it cannot parse them, where they are no part of a string.
"""

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

RUN_THEIR_CODE = ("time", "timeit", "capture", "prun", "memit")
"""Magics that run Python as it is: only what they do with it beside is left out."""

INSTRUMENTS = ("measure", "lines", "memory")
"""The workshop's own magics: the code of a cell is run, without a measurement in the measurement."""

SILENT = ("matplotlib", "load_ext", "reload_ext", "autoreload", "config", *RUN_THEIR_CODE, *INSTRUMENTS)
"""Magics of which nobody misses anything in a run without a front end."""

_MAGIC = re.compile(r"(?P<indent>\s*)(?:%%?(?P<name>\w+)(?:\s+-\w+\s*\d*)*(?P<rest>.*)|!.*|\?.*|[^#'\"]*\?)\s*")
_TAKES_VALUE = re.compile(r"\s*[\w., ]+=\s*[!%].*")


@dataclass(frozen=True)
class CellCode:
    """What of a cell Python runs."""

    source: str
    """As many lines as the cell has."""
    skipped: Sequence[tuple[int, str]] = ()
    """The number and the text of each line that is left out."""
    takes_value: Sequence[tuple[int, str]] = ()
    """Those that would have given something a value, which nothing else can."""


def as_python(source: str) -> CellCode:
    """Return a cell without what is IPython's."""
    lines = source.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    skipped: list[tuple[int, str]] = []
    taken: list[tuple[int, str]] = []
    if lines[first].startswith(">>>"):  # as copied from a session
        lines = [re.sub(r"^(>>>|\.\.\.) ?", "", line) for line in lines]
    if lines[first].startswith("%%"):
        name = re.match(r"%%(\w*)", lines[first])
        if not name or name[1] not in (*RUN_THEIR_CODE, *INSTRUMENTS):
            return CellCode("\n" * (len(lines) - 1), [(first + 1, lines[first])])
        lines[first] = ""
    while (at := _not_python(lines)) is not None:
        if _TAKES_VALUE.fullmatch(lines[at]):
            taken.append((at + 1, lines[at].strip()))
            lines[at] = f"{_indent(lines[at])}pass"
        elif not (magic := _MAGIC.fullmatch(lines[at])):
            break
        else:
            if magic["name"] not in SILENT and lines[at].lstrip()[0] in "%!":
                skipped.append((at + 1, lines[at].strip()))
            _replace(lines, at, magic)
    return CellCode("\n".join(lines), sorted(skipped), sorted(taken))


def _replace(lines: list[str], at: int, magic: re.Match[str]) -> None:
    """Replace a line, and those that it is continued in."""
    statement = magic["rest"].strip() if magic["name"] in RUN_THEIR_CODE else ""
    while lines[at].endswith("\\") and at + 1 < len(lines):
        lines[at], at = "", at + 1
    lines[at] = f"{magic['indent']}{statement or 'pass'}"


def _not_python(lines: Sequence[str]) -> int | None:
    """The place of a line at which Python sees that this is none, or of the one that it continues; None if it is."""
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse("\n".join(lines))
    except SyntaxError as error:
        at = min(max((error.lineno or 1) - 1, 0), len(lines) - 1)
        while at and lines[at - 1].endswith("\\"):
            at -= 1
        return at
    except ValueError:
        return None
    return None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
