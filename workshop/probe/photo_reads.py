"""Notes which photos a process opens and how long it slept before each, and which clocks the script replaces.

Nothing is learnt from the source text: an audit hook sees files being opened, and `time.sleep` is wrapped.
"""

import functools
import os
import sys
import threading
import time
from typing import Any

from workshop.probe.event_file import EventFile
from workshop.probe.wire import PhotoRead

# The script may replace these in its process; what is timed here must not follow.
_monotonic, _sleep = time.monotonic, time.sleep
_CLOCKS = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time")}


_thread = threading.local()
"""What the present thread has slept since its last photo, in seconds."""


def watch_photos(photos: str, events: EventFile) -> None:
    """Make an event of each file that is opened below the folder `photos`, a path that ends in a slash."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(photos):
            # The slow dataset sleeps and then reads, in one thread. What the thread slept since its last photo comes
            # along, so that sleeping elsewhere meanwhile counts for nothing.
            events.write(PhotoRead, photo=os.path.basename(arguments[0]), slept_s=getattr(_thread, "slept_s", 0.0))
            _thread.slept_s = 0.0

    sys.addaudithook(hook)


def audit_read_file(image: Any) -> None:
    """Let audit hooks see the files that torchvision opens in C++; `image` is the module torchvision.io.image."""
    read_file = image.read_file

    @functools.wraps(read_file)
    def audited(path: Any) -> Any:
        sys.audit("open", str(path), "rb", 0)
        return read_file(path)

    image.read_file = audited


def replaced_clocks() -> list[str]:
    """Return the names in `time` that the script has put something else in the place of."""
    names = [name for name, clock in _CLOCKS.items() if getattr(time, name) is not clock]
    return [*names, *([] if getattr(time.sleep, "is_watched", False) else ["sleep"])]


def watch_sleep() -> None:
    """Have `time.sleep` add up what each thread sleeps."""

    @functools.wraps(_sleep)
    def sleep(seconds: float) -> None:
        begin = _monotonic()
        _sleep(seconds)
        _thread.slept_s = getattr(_thread, "slept_s", 0.0) + _monotonic() - begin

    sleep.is_watched = True  # type: ignore[attr-defined]
    time.sleep = sleep  # type: ignore[assignment]
