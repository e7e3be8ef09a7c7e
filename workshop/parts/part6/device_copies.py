"""How batches were copied to a CUDA device, read from a trace: what must be so for a copy to hold up nothing."""

from dataclasses import dataclass

import numpy as np

from workshop.traces.event_columns import EventColumns
from workshop.traces.path.waits import BLOCKING
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
    """Neither the thread that launched it waits for it, nor the next kernel that this thread launches."""

    @property
    def asynchronous(self) -> Mask:
        """Which copies can run beside the kernels and the program."""
        return self.pinned & self.apart & self.unwaited


def copies_in(trace: Trace) -> DeviceCopies:
    """Return how those copies were made that are at least half as large as the largest."""
    gpu, on_gpu = trace.gpu, trace.on_gpu
    is_copy = trace.of(*COPY)[on_gpu] & trace.named("Memcpy HtoD")[on_gpu]
    rows = np.flatnonzero(is_copy & (2 * gpu.bytes >= gpu.bytes[is_copy].max(initial=0)))
    place = gpu.device.astype(np.int64) * 2**32 + gpu.stream  # each device numbers its own streams
    streams, kernels = np.unique(place[trace.of(*KERNEL)[on_gpu]], return_counts=True)
    computing = streams[kernels.argmax()] if len(streams) else -1
    pinned = trace.named(".*Pinned")[on_gpu][rows]
    calls, launched_by = trace.launches
    kernel_calls = calls[np.unique(launched_by[trace.of(*KERNEL)[on_gpu] & (launched_by >= 0)])]
    unwaited = np.array([not _is_waited_for(trace, row, kernel_calls) for row in rows.tolist()], np.bool_)
    return DeviceCopies(pinned, place[rows] != computing, unwaited)


def _is_waited_for(trace: Trace, row: int, kernel_calls: EventColumns) -> bool:
    """Return whether a copy is waited for before its thread launches the next kernel.

    A thread that launches no kernel does nothing but load, and may wait.
    """
    calls, launched_by = trace.launches
    if (call := launched_by[row]) < 0:  # how it was launched is not known
        return False
    launches = kernel_calls.ts[_of_thread(kernel_calls, calls, call)]
    if not len(launches):
        return False
    begin = calls.end[call]
    end = launches[launches >= begin].min(initial=NEVER)
    waits = _waits(trace, int(trace.gpu.stream[row]))
    return bool((_of_thread(waits, calls, call) & (waits.ts >= begin) & (waits.ts < end)).any())


def _waits(trace: Trace, stream: int) -> EventColumns:
    """Return the calls that make the program, or another stream, wait for a stream, or for all of them."""
    notes = trace.events[trace.of(*SYNC)]  # what the profiler has written about such calls
    awaited = np.where(notes.waits_on_stream >= 0, notes.waits_on_stream, notes.stream)
    of_others = notes.correlation[(awaited >= 0) & (awaited != stream)]
    stream_waits = notes.correlation[trace.named("Stream Wait")[trace.of(*SYNC)] & (notes.waits_on_stream == stream)]
    calls = trace.events[trace.of(*LAUNCH)]
    of_program = trace.named(BLOCKING)[trace.of(*LAUNCH)] & ~np.isin(calls.correlation, of_others)
    return calls[of_program | np.isin(calls.correlation, stream_waits)]


def _of_thread(events: EventColumns, calls: EventColumns, call: int) -> Mask:
    """Return which events belong to the thread of a call."""
    return (events.pid == calls.pid[call]) & (events.tid == calls.tid[call])
