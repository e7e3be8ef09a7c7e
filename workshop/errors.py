"""Errors that a user can fix, shown in one line on stderr with a stable exit code; a traceback is the sign of a bug."""

import atexit
import builtins
import errno
import inspect
import io
import linecache
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from workshop.terminal import columns_of, wrapped

EXIT_USAGE = 2
EXIT_CRASHED = 5  # somebody's script has crashed before there was a result
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


class WorkshopError(Exception):
    """An error that says in one line what happened and what to do about it."""

    exit_code = EXIT_USAGE

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return [str(_message(self))]


class CrashError(WorkshopError):
    """A script that crashed before anything of it was recorded."""

    exit_code = EXIT_CRASHED


class ConfigError(WorkshopError, ValueError):
    """A config file that cannot be used."""


class DataError(WorkshopError):
    """A data set, or a picture in it, that cannot be used."""


class DownloadError(DataError):
    """A data set that could not be fetched."""


class DeviceError(WorkshopError):
    """A device that this machine does not have."""


DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""The error numbers of a full disk."""

_NO_ACCESS = {errno.EROFS, errno.EACCES, errno.EPERM}
_NO_FOLDER = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 2, a script's crash into 5, and Ctrl-C into 130.

    Raises:
        SystemExit: instead of `WorkshopError`, of an `OSError` for want of room or access, of torch's
            `OutOfMemoryError`, and of `KeyboardInterrupt`. If kernprof runs the script, it still writes and prints its
            profile, if there is one.
    """
    _point_to_lines_after_kernprof()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        yield
    except SystemExit as stop:
        if isinstance(stop.code, int | None):
            _skip_empty_profile(stop.code or 0)
        raise
    except BaseException as error:
        message = _message(error)
        if message is None:
            raise
        # Letting go of the locals closes progress bars and ends DataLoader workers before the last line is printed.
        traceback.clear_frames(error.__traceback__)
        print(wrapped(message, columns_of(sys.stderr)), file=sys.stderr)
        exit_code = EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_USAGE
        exit_code = error.exit_code if isinstance(error, WorkshopError) else exit_code
        _skip_empty_profile(exit_code)
        raise SystemExit(exit_code) from None


def _message(error: BaseException) -> str | None:
    """Return what a user is told of an error; None for an error that may be a bug."""
    match error:
        case WorkshopError():
            # torch wraps an error from a DataLoader worker into "Caught DataError in DataLoader worker process 0.
            # Original Traceback ...", the last line of which is "workshop.errors.DataError: the text".
            last_line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return last_line.removeprefix(f"{type(error).__module__}.{type(error).__qualname__}: ")
        case OSError(errno=number, filename=name) if number in DISK_FULL:
            place = name or "what was being written"
            return f"no room for {place}: {error.strerror}; free some space, or name another folder"
        case OSError(errno=number, filename=name) if number in _NO_ACCESS | _NO_FOLDER and name:
            return f"cannot use {name}: {error.strerror}; name a folder of your own"
        case RuntimeError() if "DefaultCPUAllocator: can't allocate" in str(error):
            return "out of memory; try a smaller batch_size or image_size in the config"
        case Exception() if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
            return f"out of memory ({first_line(error)}); try a smaller batch_size or image_size in the config"
        case KeyboardInterrupt():
            return "stopped by Ctrl-C"
    return None


def _skip_empty_profile(exit_code: int) -> None:
    """End the process if kernprof runs it and has timed nothing yet.

    kernprof would write an empty profile over the last good one, and print a page of zeros below the message. With
    `kernprof -l`, its profiler is among the builtins.
    """
    get_stats = _stats_of_kernprof()
    if get_stats is not None and not any(get_stats().timings.values()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _stats_of_kernprof() -> Callable[[], Any] | None:
    """Return what gives the figures that kernprof has so far; None if it does not run this script."""
    return getattr(getattr(builtins, "profile", None), "get_stats", None)


def _point_to_lines_after_kernprof() -> None:
    """If kernprof runs the script and will print a table too wide for the terminal, name one that fits below it."""
    words = sys.orig_argv[: next((at for at, word in enumerate(sys.orig_argv) if word == sys.argv[0]), None)]
    views = any(word == "--view" or re.fullmatch("-[a-z]*v[a-z]*", word) for word in words)
    if (get_stats := _stats_of_kernprof()) is None or not views or not sys.stdout.isatty():
        return

    def point(begun_by: int = os.getpid()) -> None:
        with suppress(Exception):  # nothing that is said here may break a script
            if os.getpid() == begun_by and _table_width(get_stats().timings) > shutil.get_terminal_size().columns:
                print("Too wide for this terminal? workshop lines shows the same figures.", flush=True)

    atexit.register(point)  # kernprof prints its table before


def _table_width(timings: Mapping[tuple[str, int, str], object]) -> int:
    """Return the number of columns of kernprof's table: its figures have 48, and then comes the source of a line."""
    sources = [inspect.getblock(linecache.getlines(file)[first - 1 :]) for file, first, _ in timings]
    return max((48 + len(line.rstrip()) for lines in sources for line in lines), default=0)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
