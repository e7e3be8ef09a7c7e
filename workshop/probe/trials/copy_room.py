"""Whether there is memory for copies: a trial must never be what the script runs out of memory for."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import torch

from workshop.probe.own_limits import free_in_groups

MAX_SHARE_OF_FREE = 0.5
"""Share of the free memory, at most, that copies may take: the script may need more, too."""


def ensure_room(tensors: Iterable[torch.Tensor], copies: float) -> None:
    """Check that there is room for so many copies of some tensors, on the device of each.

    Raises:
        MemoryError: there is not.
    """
    needed: dict[torch.device, float] = {}
    for each in tensors:
        needed[each.device] = needed.get(each.device, 0.0) + copies * each.numel() * each.element_size()
    for device, size in needed.items():
        ensure_free(size, device)


def ensure_free(size: float, device: torch.device) -> None:
    """Check that there is room for so many bytes on a device.

    Raises:
        MemoryError: there is not.
    """
    free = free_bytes(device)
    if free is not None and size > MAX_SHARE_OF_FREE * free:
        raise MemoryError(f"copies would take {size / 1e9:.1f} GB, and {free / 1e9:.1f} are free")


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of a device in bytes; None if it is not known."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    sizes = []
    with suppress(OSError, ValueError, IndexError):
        line = next(each for each in Path("/proc/meminfo").read_text().splitlines() if each.startswith("MemAvailable"))
        sizes.append(int(line.split()[1]) * 1024)
    return min((each for each in (*sizes, free_in_groups()) if each is not None), default=None)
