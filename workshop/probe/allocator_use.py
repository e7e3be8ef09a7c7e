"""What the allocator of a CUDA device keeps without use, and how often it gives memory back and takes it again."""

from workshop.probe.observations import AllocatorUse

MIN_RETURNS = 4
"""Times, at least, that memory is given back to be told of: a few are of a start, or of an end."""

MIN_KEPT_BYTES, MIN_RATIO = 1 << 30, 1.5
"""Bytes, at least, that are kept without use, and the least ratio of what is kept to what was in use, to be told of."""


def allocator_use(device: str | None = None) -> AllocatorUse | None:
    """Return what the allocator of a CUDA device says, by default of the present one; None where there is none."""
    import torch

    if not (torch.cuda.is_initialized() and torch.device(device or "cuda").type == "cuda"):
        return None
    return from_stats(torch.cuda.memory_stats(device))


def from_stats(stats: dict[str, int]) -> AllocatorUse:
    """Return it from what `torch.cuda.memory_stats` returns; what another allocator does not count is 0."""
    return AllocatorUse(
        reserved_bytes=stats.get("reserved_bytes.all.current", 0),
        allocated_bytes=stats.get("allocated_bytes.all.peak", 0),
        returned=stats.get("num_device_free", 0),
        retries=stats.get("num_alloc_retries", 0),
    )


def said_of(use: AllocatorUse, steps: int = 0) -> str:
    """Return a sentence without its subject of what is much of it, in so many steps or in all; empty if nothing is."""
    within, said = f"in {steps} steps" if steps else "in all", list[str]()
    if use.returned >= max(MIN_RETURNS, steps / 2):
        said.append(f"gave memory back to the GPU {use.returned} times {within}")
    if use.retries:
        said.append(f"found too little left {use.retries} times {within}, and gave back all that it could")
    unused = use.reserved_bytes - use.allocated_bytes
    if unused >= MIN_KEPT_BYTES and use.reserved_bytes >= MIN_RATIO * use.allocated_bytes:
        reserved, allocated = (f"{size / 2**30:.1f} GiB" for size in (use.reserved_bytes, use.allocated_bytes))
        said.append(f"has {reserved} reserved, of which at most {allocated} were allocated at a time")
    return "; it ".join(said)
