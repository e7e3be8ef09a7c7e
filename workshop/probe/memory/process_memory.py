"""The memory of this process, as the kernel says."""

import os
from collections.abc import Sequence
from mmap import PAGESIZE

ROLLUP = "/proc/self/smaps_rollup"
PAGES = "/proc/self/pagemap"

PAGE_BYTES, IS_OURS = 8, 1 << 56
"""Of each page there are so many bytes in that file, and this bit says that no other process has it."""


def private_bytes() -> int:
    """Return how many bytes this process shares with no other; 0 where the system does not tell."""
    if not os.path.exists(ROLLUP):
        return 0
    with open(ROLLUP, "rb") as file:
        lines = file.read().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Private_Clean", b"Private_Dirty")))


def unshared(addresses: Sequence[int]) -> float:
    """Return the share of some addresses whose memory no other process has; 0 where the system does not tell.

    The objects themselves are not touched: that would make their memory this process's own.
    """
    if not addresses or not os.path.exists(PAGES):
        return 0.0
    with open(PAGES, "rb", buffering=0) as file:
        pages = [os.pread(file.fileno(), PAGE_BYTES, each // PAGESIZE * PAGE_BYTES) for each in addresses]
    return sum(bool(int.from_bytes(each, "little") & IS_OURS) for each in pages) / len(pages)
