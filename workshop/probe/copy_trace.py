"""Traces the host-to-device copies and the kernels of a CUDA device."""

from typing import Any

from torch.profiler import ProfilerActivity, profile


class CopyTrace:
    """Traces CUDA activity in this process from its construction until `finish`."""

    def __init__(self) -> None:
        self.profile = profile(activities=[ProfilerActivity.CUDA])
        self.profile.start()

    def finish(self) -> dict[str, list[tuple[int, int]]]:
        """Return start and end in ns of all "copies" from host to device, and of all "kernels"."""
        self.profile.stop()
        found: dict[str, list[tuple[int, int]]] = {"copies": [], "kernels": []}
        for event in self.profile.events():
            if (kind := _kind(event)) is not None:
                span = (round(event.time_range.start * 1e3), round(event.time_range.end * 1e3))
                found[kind].append(span)
        return found


def _kind(event: Any) -> str | None:
    """The key of `CopyTrace.finish` that an event belongs to, or None."""
    if event.device_type.name != "CUDA":
        return None
    if "Memcpy HtoD" in event.name:
        return "copies"
    return None if event.name.startswith(("Memcpy", "Memset")) else "kernels"
