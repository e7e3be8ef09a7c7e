"""The memory of this process, as the kernel says."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from mmap import PAGESIZE
from time import monotonic  # the script may replace that of the module

from workshop.probe.event_file import EventFile
from workshop.probe.memory.memory_notes import ProbeLook

PAGES = "/proc/self/pagemap"
MAPS = "/proc/self/maps"

SHARED = ("/dev/shm/", "/dev/zero", "/memfd:", "/SYSV")
"""Where memory is that processes share, in place of a file."""

IS_OURS, IS_PRESENT = 1 << 56, 1 << 63
"""The bits of the 8 bytes of a page in that file: no other process has it, and it is in memory."""


def rolled_up(pid: int | str = "self") -> dict[str, int]:
    """Return what the kernel says of a process, in bytes by its own names; nothing where it does not tell."""
    path = f"/proc/{pid}/smaps_rollup"
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        return {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in file if line.endswith("kB\n")}


def private_bytes() -> int:
    """Return how many bytes this process shares with no other; 0 where the system does not tell."""
    sizes = rolled_up()
    return sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0)


def shared_bytes() -> int:
    """Return how many bytes this process shares with others; 0 where the system does not tell."""
    sizes = rolled_up()
    return sizes.get("Shared_Clean", 0) + sizes.get("Shared_Dirty", 0)


@contextmanager
def noting_own_pages(events: EventFile) -> Iterator[None]:
    """Note how much memory becomes this process's own in the block, so that it does not count as the script's.

    To look for holders is to touch what forked workers share.
    """
    began_s, before, after = monotonic(), 0, 0
    with suppress(OSError):  # the script has no file descriptor left, or must not read it
        before = shared_bytes()
    yield
    with suppress(OSError):
        after = shared_bytes()
    events.write(ProbeLook, began_s=began_s, own_bytes=max(before - after, 0))


def unshared(addresses: Sequence[int]) -> float:
    """Return the share of some addresses whose memory no other process has; 0 where the system does not tell.

    The objects themselves are not touched: that would make their memory this process's own.
    """
    pages = _pages(addresses)
    return sum(bool(each & IS_OURS) for each in pages) / max(len(pages), 1)


def in_memory(addresses: Sequence[int]) -> list[bool]:
    """Return of each address whether its page is in memory: what nobody has written is not. Nothing is touched."""
    return [bool(each & IS_PRESENT) for each in _pages(addresses)] or [True] * len(addresses)


def is_of_file(address: int) -> bool:
    """Return whether an address is in a file that is mapped into memory; what processes share is none."""
    if not os.path.exists(MAPS):
        return False
    with open(MAPS, encoding="utf-8", errors="replace") as file:
        for line in file:
            begin, _, end = line.partition(" ")[0].partition("-")
            if int(begin, 16) <= address < int(end, 16):
                path = " ".join(line.split()[5:])
                return path.startswith("/") and not path.startswith(SHARED)
    return False


def _pages(addresses: Sequence[int]) -> list[int]:
    """What the kernel says of the page of each address; empty where it does not tell."""
    if not os.path.exists(PAGES):
        return []
    with open(PAGES, "rb", buffering=0) as file:
        said = [os.pread(file.fileno(), 8, each // PAGESIZE * 8) for each in addresses]
    return [int.from_bytes(each, "little") for each in said]
