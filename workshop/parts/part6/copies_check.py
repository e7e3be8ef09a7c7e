"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

import math
import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from workshop.judge.bench import Bench
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.signatures import is_same, values_of
from workshop.judge.verdict import NextStep, NotLookedAt, Outcome, Timing, Verdict
from workshop.probe.messages import Proceed
from workshop.traces.decoding import TraceError
from workshop.traces.event_columns import EventColumns
from workshop.traces.path.waits import BLOCKING
from workshop.traces.trace import COPY, KERNEL, LAUNCH, SYNC, Mask, Trace, read

EPOCHS = 5
"""Epochs of which the median is the time of a step."""

BLOCKING_VARIABLE = "CUDA_LAUNCH_BLOCKING"

SEEN_ON_CUDA = ("pin_memory", "non_blocking", "a stream of their own", "the speed")
"""What is looked at only on a CUDA device, where there is a copy to hide."""

NEVER = np.iinfo(np.int64).max


class CopyReason(ReasonKind):
    """What is said of how batches are copied to the device."""

    TWICE = "{again} of {batches} batches were copied to the device more than once: hand on the copy made ahead"
    AHEAD = "{ahead} of {batches} batches were copied to the device before the model began with the batch before them"
    EVERY_ITEM_ONCE = "every item came once an epoch, the last batch included"
    LAUNCH_BLOCKING = "{variable} is set: every call waits until the GPU has done its work"
    STEP = "a step takes {after_ms:.1f} ms, in {original} {before_ms:.1f} ms: speedup {ratio:.2f}x"
    NOT_SEEN = "how they were copied was not seen: torch.profiler saw no copies"
    NOT_PINNED = "{copies} of {all} copies come from memory that is not pinned"
    WAITED_FOR = "{copies} of {all} copies are waited for before the next kernel is launched, or by that kernel"
    STREAM_OF_KERNELS = "{copies} of {all} copies run on the stream of the kernels, so one after the other"
    BESIDE_KERNELS = (
        "they are copied from pinned memory, on a stream of their own, and nothing waits for them too early"
    )


class CopyAdvice(ReasonKind):
    """What to do about it."""

    COPY_AHEAD = "Copy the next batch before you train on the present one; .to(device) counts on a CPU, too."
    UNSET = "For the check, type: unset {variable}"
    NOT_PINNED = "Give the DataLoader pin_memory=True."
    WAITED_FOR = "Copy with .to(device, non_blocking=True), and call wait_stream only just before a batch is used."
    STREAM_OF_KERNELS = "Copy on a torch.cuda.Stream() of its own."


FAULTS = {
    "pinned": CopyReason.NOT_PINNED,
    "unwaited": CopyReason.WAITED_FOR,
    "apart": CopyReason.STREAM_OF_KERNELS,
}
"""Why a copy holds something up, by the column of `DeviceCopies` that is false."""


@dataclass(frozen=True)
class DeviceCopies:
    """The large copies from host to device: columns of equal length, one row for each."""

    pinned: Mask
    """From pinned memory. From any other, the call itself copies, piece by piece."""
    apart: Mask
    """On another stream than most kernels: the work of one stream is done in order."""
    unwaited: Mask
    """Neither the thread that launched it waits for it, nor the next kernel that this thread launches."""


def check(bench: Bench) -> Verdict:
    """Judge the same work, then the order of copies and forward passes; on CUDA, also the copies themselves."""
    bench.start()
    if refused := bench.refusal():
        return refused
    ledger = bench.ledger()
    ahead, again, batches = copied_ahead(ledger, bench.steps)
    if again > batches / 2:
        return Verdict(bench.subject, Outcome.OTHER_WORK, (CopyReason.TWICE(again=again, batches=batches),))
    found = CopyReason.AHEAD(ahead=ahead, batches=batches)
    if ahead < batches:
        return Verdict(bench.subject, Outcome.NOT_YET, (found,), next=NextStep(words=CopyAdvice.COPY_AHEAD()))
    reasons = (found, CopyReason.EVERY_ITEM_ONCE())
    if ledger.forwards[0].device != "cuda":
        unlooked = NotLookedAt(ledger.forwards[0].device, SEEN_ON_CUDA)
        return Verdict(bench.subject, Outcome.DONE, reasons, not_looked_at=unlooked)
    return on_cuda(bench, reasons)


def on_cuda(bench: Bench, reasons: tuple[Reason, ...]) -> Verdict:
    """Judge how the batches are copied to a CUDA device, and measure what is gained by it."""
    if os.environ.get(BLOCKING_VARIABLE, "0") not in ("", "0"):
        blocking = CopyReason.LAUNCH_BLOCKING(variable=BLOCKING_VARIABLE)
        unset = NextStep(words=CopyAdvice.UNSET(variable=BLOCKING_VARIABLE))
        return Verdict(bench.subject, Outcome.NOT_YET, (*reasons, blocking), next=unset)
    trace = traced(bench.candidate)
    found = found_in(copies_in(trace)) if trace else CopyReason.NOT_SEEN()
    before_s, after_s = map(step_time, (bench.original, bench.candidate))
    before, after = bench.contest.original_name, bench.contest.candidate.name
    timing = Timing(before, after, before_s, after_s, "a step", EPOCHS)
    figures = {"after_ms": after_s * 1e3, "before_ms": before_s * 1e3, "ratio": timing.ratio}
    step = CopyReason.STEP(original=bench.contest.original.name, **figures)
    verdict = Verdict(bench.subject, Outcome.DONE, (*reasons, found, step), timing=timing)
    if found.kind not in FAULTS.values():
        return verdict
    return replace(verdict, outcome=Outcome.NOT_YET, next=NextStep(words=CopyAdvice[found.kind.name]()))


def found_in(copies: DeviceCopies) -> Reason:
    """Say how most batches are copied."""
    number = len(copies.pinned)
    if not number:
        return CopyReason.NOT_SEEN()
    for column, fault in FAULTS.items():
        faulty = number - int(getattr(copies, column).sum())
        if 2 * faulty > number:
            return fault(copies=faulty, all=number)
    return CopyReason.BESIDE_KERNELS()


def copied_ahead(ledger: Ledger, steps: int) -> tuple[int, int, int]:
    """Count the batches that were copied before the model began with the batch before them.

    Returns:
        How many were, how many were copied more than once, and of how many batches.
    """
    ahead = again = batches = 0
    for epoch in epochs(ledger, steps):
        for present, following in pairwise(forwards_in(epoch)):
            first = values_of(following.pictures)[0]
            earlier = [copy for copy in ledger.copies if copy.picture and copy.t < following.t]
            copied = [copy for copy in earlier if is_same(values_of(copy.picture)[0], first)]
            batches += 1
            # The last copy before the model begins is the one that is used. What is there already is not copied again.
            ahead += min((copy.t for copy in copied if copy.memory == copied[-1].memory), default=math.inf) < present.t
            again += len({copy.memory for copy in copied}) > 1
    return ahead, again, batches


def traced(script: JudgedScript) -> Trace | None:
    """Return the trace of an epoch on a CUDA device, the second one after this; None if there is none."""
    script.epoch()
    path = script.epoch(Proceed(trace_copies=True)).report.copy_trace
    try:
        return read(Path(path)) if path else None
    except (TraceError, OSError):  # torch.profiler has written no event
        return None


def step_time(script: JudgedScript) -> float:
    """Return the time of a step in seconds: the median of some epochs."""
    return median(script.epoch().seconds for _ in range(EPOCHS)) / (script.epoch_steps or 1)


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
    return (events.pid == calls.pid[call]) & (events.tid == calls.tid[call])
