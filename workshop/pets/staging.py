"""A set in the making: the hidden folder in which it grows until it is whole, and the bar that shows how far it is."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm


@contextmanager
def staging_folder(root: Path, name: str, *, wait: bool) -> Iterator[Path]:
    """Make the folder for what will be `root / name`, keep it from one try to the next, and lock out other processes.

    The lock is a file beside it, so that the caller may rename the folder; it ends with the process, even a killed one.

    Raises:
        filelock.Timeout: another process has the lock, and `wait` is False.
        OSError: `root` cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{name}.lock", timeout=-1 if wait else 0):
        folder = root / f".{name}.partial"
        folder.mkdir(exist_ok=True)
        try:
            yield folder
        finally:
            with suppress(OSError):  # it was renamed, or holds something that the next try can use
                folder.rmdir()


def progress_bar(of: Iterable[Any] | None = None, **options: Any) -> Any:
    """Return a bar of tqdm; without a terminal, it is drawn at the beginning, at the end, and each half a minute."""
    if not sys.stderr.isatty():
        options |= {"mininterval": 30.0, "maxinterval": 30.0}
    return tqdm(of, **options)
