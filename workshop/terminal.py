"""Text for a terminal: how wide it is, lines that are broken between words, and lists that are cut."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TextIO

MAX_NAMED = 4
"""Names of a list, at most, that a sentence has; the others are counted."""

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
"""What bytes are counted in, with the name of each."""


class Count(str):
    """A text that tells how far something has come: the next one takes its place."""


COLUMNS_VARIABLE = "WORKSHOP_COLUMNS"
"""The environment variable with the number of columns of an answer that goes elsewhere than to a terminal."""


def columns_of(stream: TextIO) -> int | None:
    """Return the number of columns of the terminal that a stream goes to; None if it goes elsewhere."""
    if stream.isatty():
        return shutil.get_terminal_size().columns
    return int(os.environ.get(COLUMNS_VARIABLE, 0)) or None if stream is sys.stdout else None


def wrapped(text: str, width: int | None, first: str = "", others: str = "") -> str:
    """Return a text as lines of a width, broken between words, so that paths and options can be copied.

    Args:
        text: lines that are indented are commands or code, and stay as they are.
        width: the most columns of a line; with None, no line is broken.
        first: what is put before each line of the text.
        others: what is put before the lines that it is broken into after the first.
    """
    if width is None:
        return first + text
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(line if line.startswith("    ") else wrapper.fill(line) for line in text.split("\n"))


def cut(text: str, width: int) -> str:
    """Return a text of no more characters than this; one that was longer ends in an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def some_of(names: Iterable[object]) -> str:
    """Return a list for a sentence: the first few names, and how many more there are."""
    texts = list(map(str, names))
    more = f" and {len(texts) - MAX_NAMED} more" if len(texts) > MAX_NAMED else ""
    return f"{', '.join(texts[:MAX_NAMED])}{more}"


def size_text(size: float) -> str:
    """Return a number of bytes in GiB, in MiB for small ones, and in KiB for those that are smaller still."""
    for unit, name in UNITS:
        if abs(size) >= unit:
            return f"{size / unit:.2f} {name}" if abs(size) < 10 * unit else f"{size / unit:.1f} {name}"
    return f"{size:.0f} B"
