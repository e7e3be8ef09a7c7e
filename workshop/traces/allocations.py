"""What a trace tells of memory, as columns: each allocation and each release that torch.profiler has recorded."""

from typing import Any, NamedTuple

import numpy as np

from workshop.traces.intervals import Ints


class Allocations(NamedTuple):
    """Columns of equal length, one row for each allocation and each release, in the order of time.

    `pid`, `tid` and `ts` are as in `EventColumns`.
    """

    pid: Ints
    tid: Ints
    address: Ints
    size: Ints
    """The number of bytes; negative for a release."""
    allocated: Ints
    """The bytes of the device that are in use from now on, as its allocator counts them; 0 if it does not count."""
    reserved: Ints
    """The bytes that the allocator has taken from the device, whether they are in use or not."""
    device_type: Ints
    """A number of torch's: 0 is a CPU, 1 is CUDA."""
    device_id: Ints
    """The number of the device among those of its type, or -1 for a CPU."""
    ts: Ints

    def rows(self, which: Any) -> "Allocations":
        """Return some of the rows."""
        return Allocations(*(column[which] for column in self))

    @property
    def end(self) -> Ints:
        """The end of the nanosecond: what ends at `ts` is over by then."""
        return self.ts + 1


def no_allocations() -> Allocations:
    """Return the columns without a row."""
    return Allocations(*[np.empty(0, np.int64)] * len(Allocations._fields))
