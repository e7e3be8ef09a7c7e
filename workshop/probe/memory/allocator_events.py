"""What torch's allocator for the CPU says of itself, by torch.profiler: also what operators allocate inside."""

from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from workshop.probe.profiled_scopes import ProfiledScopes

MEMORY = "[memory]"


class AllocatorEvents:
    """Records what is allocated and freed between `begin` and `end`; nothing if the script profiles itself."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self.scopes = ProfiledScopes()

    def begin(self) -> None:
        """Begin to record."""
        if not torch.autograd._profiler_enabled():
            self._profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self._profiler.start()

    def end(self) -> list[tuple[int, int]] | None:
        """Return the time in ns, by the system's clock, and the bytes of each event; None if nothing was recorded.

        What was allocated while nothing was recorded is not told when it is freed.
        """
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return None
        profiler.stop()
        self.scopes.on_profiler_end()
        events = profiler.profiler.kineto_results.events()
        cpu = torch.profiler.profiler.torch.autograd.DeviceType.CPU
        return sorted(
            (each.start_ns(), each.nbytes()) for each in events if each.name() == MEMORY and each.device_type() == cpu
        )
