"""Notes which photos a process reads and how long it slept before each, which files it writes, and replaced clocks.

Nothing is learnt from the source text: an audit hook sees files being opened, and `time.sleep` is wrapped.
"""

import functools
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.events import FileWritten, PhotoRead

# The script may replace these in its process; what is timed here must not follow.
_monotonic, _sleep = time.monotonic, time.sleep
_CLOCKS = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time")}


SLICE_S = 0.025
"""A sleep is divided into pieces of this length."""

STOPPED_S = 0.3
"""A piece that takes so much longer was under way while the process was stopped: on a busy machine it does not."""


class _Waits(threading.local):
    """How the present thread has waited: the seconds that it slept since it opened its last photo, and other ways.

    The latter are kept from photo to photo, because coroutines of a thread wait first, and open their photos then.
    """

    slept_s = 0.0
    otherwise = False


_waits = _Waits()
_skips_waits = False
os.register_at_fork(after_in_child=lambda: _waits.__dict__.clear())  # what the parent slept, it did not


def watch_photos(photos: str, events: EventFile) -> None:
    """Make an event of each file that is opened below the folder `photos`, a path that ends in a slash."""

    def note(opened: str, _mode: Any, _flags: Any) -> None:
        path = os.path.abspath(opened)
        if path.startswith(photos):
            # The slow dataset sleeps and then reads, in one thread. What the thread slept since its last photo comes
            # along, so that sleeping elsewhere meanwhile counts for nothing.
            name, slept_s, otherwise = os.path.basename(path), _waits.slept_s, _waits.otherwise
            events.write(PhotoRead, photo=name, slept_s=slept_s, waited_otherwise=otherwise)
            _waits.slept_s = 0.0

    events.note_opened(note)


def audit_read_file(image: Any) -> None:
    """Let audit hooks see the files that torchvision opens in C++; `image` is the module torchvision.io.image."""
    read_file = image.read_file

    @functools.wraps(read_file)
    def audited(path: Any) -> Any:
        sys.audit("open", str(path), "rb", 0)
        return read_file(path)

    image.read_file = audited


def replaced_clocks() -> list[str]:
    """Return the names in `time` that the script has put something else in place of."""
    names = [name for name, clock in _CLOCKS.items() if getattr(time, name) is not clock]
    return [*names, *([] if getattr(time.sleep, "is_watched", False) else ["sleep"])]


def watch_sleep() -> None:
    """Have `time.sleep` add up what each thread sleeps; while the process is stopped, no time passes for a sleeper."""

    @functools.wraps(_sleep)
    def sleep(seconds: float) -> None:
        left = 0.0 if _skips_waits and seconds > 0 else seconds
        while left > 0 or left == seconds:  # a sleep of no time lets others run
            asked, begin = min(left, SLICE_S), _monotonic()
            _sleep(asked)
            passed = _monotonic() - begin
            passed = passed if passed < asked + STOPPED_S else asked
            _waits.slept_s += passed
            left -= passed

    sleep.is_watched = True  # type: ignore[attr-defined]
    time.sleep = sleep  # type: ignore[assignment]


def skip_waits() -> None:
    """Sleep no more in this process, which does not do the script's own work."""
    global _skips_waits
    _skips_waits = True


def watch_events() -> None:
    """Have a timed `threading.Event.wait` noted."""
    wait = threading.Event.wait

    @functools.wraps(wait)
    def noted_wait(event: threading.Event, timeout: float | None = None) -> bool:
        _waits.otherwise |= timeout is not None
        return wait(event, timeout)

    threading.Event.wait = noted_wait  # type: ignore[assignment,method-assign]


def watch_asyncio(asyncio: Any) -> None:
    """Have `asyncio.sleep` noted, given its module."""
    original = asyncio.sleep

    @functools.wraps(original)
    def sleep(*arguments: Any, **options: Any) -> Any:
        _waits.otherwise = True
        return original(*arguments, **options)

    asyncio.sleep = asyncio.tasks.sleep = sleep


FEW = 20
"""The number of files whose names each process notes."""

_WRITING = os.O_WRONLY | os.O_RDWR


def watch_writes(own: Sequence[str], events: EventFile) -> None:
    """Make an event of each file that is opened to be written.

    Args:
        own: folders whose files are not of interest. Devices, and the caches of libraries, are never of interest.
        events: where the events go.
    """
    caches = (os.path.expanduser(each) for each in ("~/.cache", "~/.triton", "~/.config"))
    folders = tuple(os.path.join(os.path.realpath(folder), "") for folder in (*own, *caches, "/dev", "/proc"))
    known: set[str] = set()

    def note(opened: str, mode: Any, flags: Any) -> None:
        if len(known) == FEW or not (set(mode) & set("wax+") if mode else (flags or 0) & _WRITING):
            return
        path = os.path.realpath(opened)
        if path in known or path.startswith(folders) or "__pycache__" in path:
            return
        known.add(path)
        events.write(FileWritten, path=path)

    events.note_opened(note)
