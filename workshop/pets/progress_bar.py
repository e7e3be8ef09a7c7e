"""The progress bar of what takes long here: it moves in a terminal, and is a few lines in a log."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

LOG_EVERY_S = 30.0
"""Seconds between two lines of progress where stderr is no terminal."""


def progress_bar(of: Iterable[Any] | None = None, **options: Any) -> Any:
    """Return a bar of tqdm; without a terminal, it is drawn at the beginning, at the end, and each half a minute."""
    if not sys.stderr.isatty():
        options |= {"mininterval": LOG_EVERY_S, "maxinterval": LOG_EVERY_S}
    return tqdm(of, **options)
