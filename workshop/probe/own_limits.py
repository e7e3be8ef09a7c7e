"""What this process may use: its cores, and the memory that the control groups of Linux leave to it."""

import os
from contextlib import suppress
from pathlib import Path

FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}
"""The files of a group with its limit and what it uses: in version 2, and of the memory controller of version 1."""

NO_LIMIT = 1 << 60
"""Version 1 says a number about as large as this for no limit."""


def free_in_groups(root: Path = Path("/")) -> int | None:
    """Return how many more bytes the control groups of this process leave to it; None if none of them has a limit.

    A limit holds for the groups inside, too: the tightest one counts.
    """
    own = dict.fromkeys(FILES, "")
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            own |= dict.fromkeys(controllers.split(","), group.strip("/"))
    free = []
    for controller, (limit, used) in FILES.items():
        top = root / "sys/fs/cgroup" / controller
        for folder in (top / own[controller], *(top / own[controller]).parents):
            with suppress(OSError, ValueError):  # "max" is no number: there is no limit
                limit_bytes, used_bytes = int((folder / limit).read_text()), int((folder / used).read_text())
                if limit_bytes < NO_LIMIT:
                    free.append(max(0, limit_bytes - used_bytes))
            if folder == top:
                break
    return min(free, default=None)


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
