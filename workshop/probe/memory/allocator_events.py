"""What torch's allocator for the CPU says of itself, by torch.profiler: also what operators allocate inside."""

import ctypes
import threading
from contextlib import suppress
from time import monotonic  # the script may replace that of the module
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from workshop.probe.event_file import EventFile
from workshop.probe.internals import allocations_of
from workshop.probe.memory.memory_notes import ProbeLook
from workshop.probe.process_end import at_process_end
from workshop.probe.torch_profiler import ProfiledScopes

MAX_OPERATORS = 10_000
"""The largest number of operators in what is recorded again: torch.profiler keeps 10 to 20 KB of each until its end."""


class AllocatorEvents:
    """Records what is allocated and freed between `begin` and `end`; nothing if the script profiles itself.

    After the first that has too many operators, nothing more is recorded.
    """

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._profiler: Any = None
        self._began_s, self._are_too_many = 0.0, False
        self._thread, self._ends = 0, False
        self.scopes = ProfiledScopes()

    def begin(self) -> None:
        """Begin to record."""
        if not self._are_too_many and not torch.autograd._profiler_enabled():
            if not self._ends:
                self._ends = True
                at_process_end(self.give_up)  # torch may crash as it takes down a profiler that records
            self._thread, self._began_s = threading.get_ident(), monotonic()
            self._profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
            self._profiler.start()

    def give_up(self) -> None:
        """Stop, and forget what was recorded: before a fork, as the other process would record for ever, and grow.

        To go on after it would be wrong inside of an operator, which leaves its scope under the profiler that it was
        entered under.
        """
        if self._profiler and self._thread == threading.get_ident():
            self._stop()

    def end(self, operators: int = 0) -> list[tuple[int, int]] | None:
        """Return the time in ns, by the system's clock, and the bytes of each event; None if nothing was recorded.

        Of too many operators, nothing is returned, and the memory that they took here is given back to the system.
        What was allocated before is left out when it is freed: torch tells its size by its address, and may have kept
        that of something else, which was freed in the meantime.
        """
        if self._profiler is None:
            return None
        profiler = self._stop()
        if operators > MAX_OPERATORS:
            self._are_too_many = True
            del profiler
            _give_back()
            self._events.write(ProbeLook, began_s=self._began_s, own_bytes=0)
            return None
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


def _give_back() -> None:
    """Have the C library return freed memory to the system, where it can."""
    with suppress(OSError, AttributeError):  # it is another C library than that of GNU
        ctypes.CDLL(None).malloc_trim(0)
