"""A hidden folder in which a set grows, so that it appears under its own name only when it is whole."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock


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
