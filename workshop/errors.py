"""Errors that a person can put right, and how they are shown: one line on stderr, a stable exit code, no traceback.

A traceback stays what it should be: the sign of a bug.
"""

import builtins
import errno
import io
import os
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


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a full disk answers."""

_NO_ACCESS = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_FOLDER = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 2, and Ctrl-C into exit code 130.

    Raises:
        SystemExit: instead of `WorkshopError`, of an `OSError` for want of room or access, of torch's
            `OutOfMemoryError`, and of `KeyboardInterrupt`. kernprof still writes and prints its profile on the way
            out, if there is one.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        with _one_line_each():
            yield
    except SystemExit as stop:
        if isinstance(stop.code, int | None) and _kernprof_has_nothing_to_say():
            # It would write an empty profile over the last good one, and print a page of zeros below the message.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(stop.code or 0)
        raise


@contextmanager
def _one_line_each() -> Iterator[None]:
    try:
        yield
    except WorkshopError as error:
        _stop(error, _one_line(error), EXIT_USAGE)
    except OSError as error:
        if error.errno in NO_ROOM:
            place = error.filename or "what was being written"
            _stop(error, f"no room for {place}: {error.strerror}; free some space, or name another folder", EXIT_USAGE)
        elif error.errno in _NO_ACCESS | _NO_FOLDER and error.filename:
            _stop(error, f"cannot use {error.filename}: {error.strerror}; name a folder of your own", EXIT_USAGE)
        else:
            raise  # it may well be a bug
    except (MemoryError, RuntimeError) as error:
        # torch's OutOfMemoryError on a device, and what it says on a CPU; neither is worth loading torch for.
        on_cpu = "DefaultCPUAllocator: can't allocate" in str(error)
        if not (on_cpu or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"):
            raise
        where = "" if on_cpu else f" ({first_line(error)})"
        _stop(error, f"out of memory{where}; try a smaller batch_size or image_size in the config", EXIT_USAGE)
    except KeyboardInterrupt as interrupt:
        _stop(interrupt, "stopped by Ctrl-C", EXIT_INTERRUPTED)


def _stop(error: BaseException, message: str, exit_code: int) -> None:
    # Letting go of the locals closes progress bars and ends DataLoader workers before the last line is printed.
    traceback.clear_frames(error.__traceback__)
    print(message, file=sys.stderr)
    raise SystemExit(exit_code) from None


def _kernprof_has_nothing_to_say() -> bool:
    """Whether `kernprof -l` runs this, which leaves its profiler among the builtins, and not a line was timed yet."""
    get_stats = getattr(getattr(builtins, "profile", None), "get_stats", None)
    return get_stats is not None and not any(get_stats().timings.values())


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type's name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _one_line(error: WorkshopError) -> str:
    """The error's own text, also when it comes out of a DataLoader worker.

    There torch wraps it into "Caught DataError in DataLoader worker process 0. Original Traceback ...", the last line
    of which is "workshop.errors.DataError: the text".
    """
    last_line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return last_line.removeprefix(f"{type(error).__module__}.{type(error).__qualname__}: ")
