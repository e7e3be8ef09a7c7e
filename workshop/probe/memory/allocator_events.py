"""What torch's allocator for the CPU says of itself, by torch.profiler: also what operators allocate inside."""

import threading
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from workshop.probe.internals import allocations_of
from workshop.probe.process_end import at_process_end
from workshop.probe.profiled_scopes import ProfiledScopes


class AllocatorEvents:
    """Records what is allocated and freed between `begin` and `end`; nothing if the script profiles itself."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self._thread, self._ends = 0, False
        self.scopes = ProfiledScopes()

    def begin(self) -> None:
        """Begin to record."""
        if not torch.autograd._profiler_enabled():
            if not self._ends:
                self._ends = True
                at_process_end(self.give_up)  # torch may crash as it takes down a profiler that records
            self._thread = threading.get_ident()
            self._profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self._profiler.start()

    def give_up(self) -> None:
        """Stop, and forget what was recorded: before a fork, as the other process would record for ever, and grow.

        To go on after it would be wrong inside of an operator, which leaves its scope under the profiler that it was
        entered under.
        """
        if self._profiler and self._thread == threading.get_ident():
            self._stop()

    def end(self) -> list[tuple[int, int]] | None:
        """Return the time in ns, by the system's clock, and the bytes of each event; None if nothing was recorded.

        What was allocated before is left out when it is freed: torch tells its size by its address, and may have kept
        that of something else, which was freed in the meantime.
        """
        if self._profiler is None:
            return None
        profiler = self._stop()
        events = list[tuple[int, int]]()
        present = set[int]()
        for when, address, size in sorted(allocations_of(profiler.profiler.kineto_results)):
            if size > 0:
                present.add(address)
            elif address not in present:
                continue
            else:
                present.remove(address)
            events.append((when, size))
        return events

    def _stop(self) -> Any:
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        self.scopes.on_profiler_end()
        return profiler
