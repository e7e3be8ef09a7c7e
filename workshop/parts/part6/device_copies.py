"""How batches were copied to a CUDA device, read from a trace: what must be so for a copy to hold up nothing."""

from dataclasses import dataclass

import numpy as np

from workshop.traces.intervals import Ints
from workshop.traces.trace import COPY, KERNEL, LAUNCH, SYNC, Mask, Trace

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DeviceCopies:
    """The large copies from host to device: columns of equal length, one row for each."""

    pinned: Mask
    """From pinned memory. From any other, the call itself copies, piece by piece."""
    apart: Mask
    """On another stream than most kernels: the work of one stream is done in order."""
    unwaited: Mask
    """The thread that launched it launches its next kernel without waiting for the copy."""

    @property
    def asynchronous(self) -> Mask:
        """Which copies can run beside the kernels and the program."""
        return self.pinned & self.apart & self.unwaited


def copies_in(trace: Trace) -> DeviceCopies:
    """Return how those copies were made that are at least half as large as the largest."""
    gpu, on_gpu = trace.gpu, trace.on_gpu
    is_copy = trace.of(*COPY)[on_gpu] & trace.named("Memcpy HtoD")[on_gpu]
    rows = np.flatnonzero(is_copy & (2 * gpu.bytes >= gpu.bytes[is_copy].max(initial=0)))
    streams, kernels = np.unique(gpu.stream[trace.of(*KERNEL)[on_gpu]], return_counts=True)
    computing = streams[kernels.argmax()] if len(streams) else -1
    pinned = trace.named(".*Pinned")[on_gpu][rows]
    unwaited = np.array([_next_kernel(trace, row) <= _next_wait(trace, row) for row in rows.tolist()], np.bool_)
    return DeviceCopies(pinned, gpu.stream[rows] != computing, unwaited)


def _next_kernel(trace: Trace, row: int) -> int:
    """Return when the thread that launched a copy next launched a kernel, in ns."""
    calls, launched_by = trace.launches
    kernels = np.unique(launched_by[trace.of(*KERNEL)[trace.on_gpu] & (launched_by >= 0)])
    return _next(calls.ts[kernels], calls.pid[kernels], calls.tid[kernels], trace, row)


def _next_wait(trace: Trace, row: int) -> int:
    """Return when the thread that launched a copy next waited for its stream: at once, if the call itself did."""
    calls, launched_by = trace.launches
    call = launched_by[row]
    if call >= 0 and calls.end[call] >= trace.gpu.end[row]:
        return int(calls.ts[call])
    notes = trace.events[trace.of(*SYNC)]  # a note on a call without a stream is about all of them
    of_others = notes.correlation[(notes.stream >= 0) & (notes.stream != trace.gpu.stream[row])]
    waits = trace.events[trace.of(*LAUNCH) & trace.named(r"\w+Synchronize")]
    waits = waits[~np.isin(waits.correlation, of_others)]
    return _next(waits.ts, waits.pid, waits.tid, trace, row)


def _next(ts: Ints, pid: Ints, tid: Ints, trace: Trace, row: int) -> int:
    """Return the first of some calls of the thread that launched a copy, after that; `NEVER` if there is none."""
    calls, launched_by = trace.launches
    call = launched_by[row]
    if call < 0:
        return NEVER
    of_thread = (pid == calls.pid[call]) & (tid == calls.tid[call])
    return int(ts[of_thread & (ts >= calls.end[call])].min(initial=NEVER))
