"""Notes how much memory becomes this process's own as we look for holders: what forked workers share is touched."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic  # the script may replace that of the module

from workshop.probe.event_file import EventFile
from workshop.probe.memory.memory_notes import HoldersLook
from workshop.probe.memory.process_memory import shared_bytes


@contextmanager
def noting_own_pages(events: EventFile) -> Iterator[None]:
    """Note it of what is done in the block, so that it does not count as the script's."""
    began_s, before = monotonic(), _shared()
    yield
    events.write(HoldersLook, began_s=began_s, own_bytes=max(before - _shared(), 0))


def _shared() -> int:
    try:
        return shared_bytes()
    except OSError:  # the script has no file descriptor left, or must not read it
        return 0
