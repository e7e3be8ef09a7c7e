"""Errors that a person can put right, and how they are shown: one line on stderr, a stable exit code, no traceback.

A traceback stays what it should be: the sign of a bug.
"""

import errno
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


class WorkshopError(Exception):
    """What happened and what to do about it, in one line."""


class ConfigError(WorkshopError, ValueError):
    """A config file that cannot be used."""


class DataError(WorkshopError):
    """A data set, or a picture in it, that cannot be used."""


class DownloadError(DataError):
    """A data set that could not be fetched."""


class DeviceError(WorkshopError):
    """A device that this machine does not have."""


# What a full, write-protected or mistaken folder answers. Any other OSError may well be a bug and keeps its traceback.
_STORAGE_REMEDIES = {
    errno.ENOSPC: "free some space, or name another folder",
    errno.EDQUOT: "free some space, or name another folder",
    errno.EFBIG: "raise the limit on the size of files, or name another folder",
    errno.EROFS: "name a folder that you may write to",
    errno.EACCES: "name a folder that you may write to",
    errno.EPERM: "name a folder that you may write to",
    errno.ENOTDIR: "name a folder that you may write to",
}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 2, and Ctrl-C into exit code 130.

    Raises:
        SystemExit: instead of `WorkshopError`, of an `OSError` for want of space or permission, and of
            `KeyboardInterrupt`. kernprof still writes and prints its profile on the way out.
    """
    try:
        yield
    except WorkshopError as error:
        _stop(error, _one_line(error), EXIT_USAGE)
    except OSError as error:
        if error.errno not in _STORAGE_REMEDIES:
            raise
        _stop(error, _storage_problem(error, _STORAGE_REMEDIES[error.errno]), EXIT_USAGE)
    except KeyboardInterrupt as interrupt:
        _stop(interrupt, "stopped by Ctrl-C", EXIT_INTERRUPTED)


def _storage_problem(error: OSError, remedy: str) -> str:
    """Which file, or failing that which line, could not be written, and why."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = error.filename or f"a file ({frame.filename}, line {frame.lineno})"
    return f"cannot write {place}: {error.strerror}; {remedy}"


def _stop(error: BaseException, message: str, exit_code: int) -> None:
    # Letting go of the locals closes progress bars and ends DataLoader workers before the last line is printed.
    traceback.clear_frames(error.__traceback__)
    print(message, file=sys.stderr)
    raise SystemExit(exit_code) from None


def _one_line(error: WorkshopError) -> str:
    """The error's own text, also when it comes out of a DataLoader worker.

    There torch wraps it into "Caught DataError in DataLoader worker process 0. Original Traceback ...", the last line
    of which is "workshop.errors.DataError: the text".
    """
    last_line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return last_line.removeprefix(f"{type(error).__module__}.{type(error).__qualname__}: ")
