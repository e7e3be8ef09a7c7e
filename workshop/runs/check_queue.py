"""A line of checks on a machine that many people share: they take turns, so that none spoils the figures of another.

The instructor makes a folder that all may write to, and names it in the environment (`WORKSHOP_QUEUE`). A check draws a
number there, a file that it keeps locked: whoever ends or is killed leaves the line, as the system lets go of the lock.
The first in line takes a free place, which is a locked file, too; by default, there is one. With a number of cores in
`WORKSHOP_QUEUE_CORES`, there is one for each so many cores, and a check keeps to the cores of its place.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workshop.errors import WorkshopError
from workshop.runs.script import Say

FOLDER_VARIABLE = "WORKSHOP_QUEUE"
CORES_VARIABLE = "WORKSHOP_QUEUE_CORES"

LOOK_EVERY_S = 0.5
"""Seconds between two looks of the first in line; the others look less often, as they must not disturb."""

_NUMBERS = "numbers"
"""The file that is locked while a number is drawn."""


@dataclass(frozen=True)
class Place:
    """Where one check at a time runs."""

    name: str
    cores: frozenset[int] | None
    """The cores that it keeps to; None for all."""


@contextmanager
def turn(say: Say) -> Iterator[None]:
    """Wait in the line of this machine, if there is one, and keep the place while the context lasts.

    Args:
        say: told of the number in line.

    Raises:
        WorkshopError: the folder, or the number of cores, cannot be used.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        yield
        return
    try:
        with _number(Path(folder)) as number:
            place, lock = _wait(Path(folder), number, places(), say)
    except OSError as error:
        problem = f"{error.filename or folder}: {error.strerror}"
        raise WorkshopError(
            f"{FOLDER_VARIABLE} names a folder that cannot be used ({problem}); make it with mkdir -m 1777 {folder}"
        ) from None
    try:
        with _pinned(place):
            yield
    finally:
        os.close(lock)


def places() -> list[Place]:
    """Return the places of this machine.

    Raises:
        WorkshopError: the number of cores is none.
    """
    text = os.environ.get(CORES_VARIABLE, "")
    if not text:
        return [Place("place-0", None)]
    if not text.isdecimal() or int(text) == 0:
        raise WorkshopError(f"{CORES_VARIABLE}={text} is no number of cores")
    if not hasattr(os, "sched_getaffinity"):
        return [Place("place-0", None)]
    cores, each = sorted(os.sched_getaffinity(0)), int(text)
    count = max(1, len(cores) // each)
    return [Place(f"place-{at}", frozenset(cores[at * each : (at + 1) * each])) for at in range(count)]


def _wait(folder: Path, number: int, among: list[Place], say: Say) -> tuple[Place, int]:
    """Return a place and its lock once all who came before have one."""
    told = None
    while True:
        before = _before(folder, number)
        if not before:
            for place in among:
                if (lock := _locked(folder / place.name)) is not None:
                    return place, lock
        if before != told:
            told = before
            say(f"number {before + 1} in line for this machine: others are being checked")
        time.sleep(LOOK_EVERY_S * (1 + before))


def _before(folder: Path, number: int) -> int:
    """Return how many with a lower number wait; whoever died before their turn does not count."""
    lower = [path for path in _drawn(folder) if int(path.name) < number]
    return sum(_is_locked(path) for path in lower)


def _drawn(folder: Path) -> list[Path]:
    """Return the files of the numbers that were drawn; whatever else is in the folder is left alone."""
    return [path for path in folder.glob("[0-9]*") if path.name.isdecimal()]


@contextmanager
def _number(folder: Path) -> Iterator[int]:
    """Draw the next number, and keep its place in line while the context lasts."""
    drawing = _open(folder / _NUMBERS)
    try:
        fcntl.flock(drawing, fcntl.LOCK_EX)
        number = max((int(path.name) for path in _drawn(folder)), default=0) + 1
        path = folder / f"{number:010d}"
        ticket = _open(path)
        fcntl.flock(ticket, fcntl.LOCK_EX)
    finally:
        os.close(drawing)
    try:
        yield number
    finally:
        path.unlink(missing_ok=True)
        os.close(ticket)


def _open(path: Path) -> int:
    """Open a file that everybody may lock, and nobody but its owner may write; make it if need be."""
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    except FileExistsError:  # another has just made it
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    os.fchmod(file, 0o644)
    return file


def _locked(path: Path) -> int | None:
    """Return the lock of a file; None if another has it."""
    file = _open(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _is_locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    with suppress(OSError):
        path.unlink()  # that of somebody who was killed; where it is not ours to remove, it stays and does not count
    return False


@contextmanager
def _pinned(place: Place) -> Iterator[None]:
    """Keep this thread, and all that it starts, to the cores of a place where the system allows it."""
    if place.cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, place.cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
