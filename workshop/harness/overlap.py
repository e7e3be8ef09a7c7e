"""How much of the time that copies to a CUDA device take is hidden under kernels: from a trace of one epoch."""

from collections.abc import Iterable
from typing import Any

Interval = tuple[float, float]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points in time as disjoint intervals, in order."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def length(intervals: Iterable[Interval]) -> float:
    """Of disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def common(first: Iterable[Interval], second: Iterable[Interval]) -> float:
    """The length of what two unions of intervals have in common: |A| + |B| - |A or B|."""
    a, b = merged(first), merged(second)
    return length(a) + length(b) - length(merged([*a, *b]))


class CopyTrace:
    """Traces CUDA activity in this process between its start and its end."""

    def __init__(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        self.profile = profile(activities=[ProfilerActivity.CUDA])
        self.profile.start()

    def finish(self) -> dict[str, float]:
        """Seconds of "copies" from host to device, of them "hidden" under kernels, and of "kernels"."""
        self.profile.stop()
        copies: list[Interval] = []
        kernels: list[Interval] = []
        for event in self.profile.events():
            if (kind := _kind(event)) is not None:
                span = (event.time_range.start * 1e-6, event.time_range.end * 1e-6)
                (copies if kind == "copy" else kernels).append(span)
        return {
            "copies": length(merged(copies)),
            "hidden": common(copies, kernels),
            "kernels": length(merged(kernels)),
        }


def _kind(event: Any) -> str | None:
    """A copy, a kernel, or None for all else."""
    if event.device_type.name != "CUDA":
        return None
    if "Memcpy HtoD" in event.name:
        return "copy"
    return None if event.name.startswith(("Memcpy", "Memset")) else "kernel"
