"""The memory of this process, as the kernel says."""

import os

ROLLUP = "/proc/self/smaps_rollup"


def private_bytes() -> int:
    """Return how many bytes this process shares with no other; 0 where the system does not tell."""
    if not os.path.exists(ROLLUP):
        return 0
    with open(ROLLUP, "rb") as file:
        lines = file.read().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"Private_Clean", b"Private_Dirty")))
