"""A hidden folder in which a set grows, so that it appears under its own name only when it is whole."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock


@contextmanager
def staging_folder(root: Path, name: str, *, wait: bool) -> Iterator[Path]:
    """The folder for what will be `root / name`: kept from one try to the next, used by one process at a time.

    The lock is a file beside it, so that the caller may rename the folder. It ends with the process, even one that is
    killed.

    Raises:
        filelock.Timeout: another process is at it, and `wait` is False.
        OSError: `root` cannot be written.
    """
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{name}.lock", timeout=-1 if wait else 0):
        folder = root / f".{name}.partial"
        folder.mkdir(exist_ok=True)
        try:
            yield folder
        finally:
            with suppress(OSError):  # gone, or there is something in it to go on from
                folder.rmdir()
