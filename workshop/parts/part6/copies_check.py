"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

import math
import os
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from workshop.judge.bench import Bench
from workshop.judge.contest import Contest
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.race import RaceResult, race
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.signatures import is_same, values_of
from workshop.judge.time_plan import FIRST_EPOCHS
from workshop.judge.verdict import NextStep, NotLookedAt, Outcome, Timing, Verdict
from workshop.parts.part6.copy_sizes import MIN_SHARE, CopySize, best, measure
from workshop.probe.messages import Proceed
from workshop.probe.phases import Phase
from workshop.traces.decoding import TraceError
from workshop.traces.event_columns import EventColumns
from workshop.traces.path.waits import BLOCKING
from workshop.traces.trace import COPY, KERNEL, LAUNCH, SYNC, Mask, Trace, read

LAP_S, RACE_S = 0.5, 60.0
"""Seconds, at least, that each script of a pair trains, and seconds, at most, of the race."""

RACED = tuple(each for each in Phase if each is not Phase.DATA_WAIT)
"""The batches come from memory, and what it takes to hand them out is no part of the race."""

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
    SPEEDUP = (
        "with {batch} pictures of {side} px a batch, copying takes {share:.0%} of a step on this device; there a step "
        "takes {after_ms:.1f} ms, in {original} {before_ms:.1f} ms: speedup {ratio:.2f}x, {low:.2f}x to {high:.2f}x"
    )
    NOTHING_TO_HIDE = (
        "on this device copying takes {share:.0%} of a step at most, with {batch} pictures of {side} px a batch: too "
        "little for hiding it to show in the time of a step, so the speed was not measured"
    )
    NO_SIZE_FITS = "the speed was not measured: there is too little memory on this device"
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
    NO_SPEEDUP = "Profile main() line by line with CUDA_LAUNCH_BLOCKING=1: what else has your change made slower?"
    TOO_CLOSE = "Check again when nothing else uses the device."


OUTCOMES = {True: Outcome.DONE, False: Outcome.NOT_YET, None: Outcome.UNDECIDED}
"""Of a race whose target is 1, by whether the script is faster."""

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
    """Judge how the batches are copied to a CUDA device, and then what is gained by it."""
    if os.environ.get(BLOCKING_VARIABLE, "0") not in ("", "0"):
        blocking = CopyReason.LAUNCH_BLOCKING(variable=BLOCKING_VARIABLE)
        unset = NextStep(words=CopyAdvice.UNSET(variable=BLOCKING_VARIABLE))
        return Verdict(bench.subject, Outcome.NOT_YET, (*reasons, blocking), next=unset)
    trace = traced(bench.candidate)
    found = found_in(copies_in(trace)) if trace else CopyReason.NOT_SEEN()
    if found.kind in FAULTS.values():
        advice = NextStep(words=CopyAdvice[found.kind.name]())
        return Verdict(bench.subject, Outcome.NOT_YET, (*reasons, found), next=advice)
    bench.say("looking for a size of batches at which copying takes long")
    size = best(measure(bench.ledger().forwards[0].device))
    return with_speed(Verdict(bench.subject, Outcome.DONE, (*reasons, found)), bench, size)


def with_speed(verdict: Verdict, bench: Bench, size: CopySize | None) -> Verdict:
    """Return a verdict with what is gained at a size, if copying takes long enough there for it to show."""
    if size is None or size.share < MIN_SHARE:
        figures = {"side": size.side, "batch": size.batch, "share": size.share} if size else {}
        unseen = CopyReason.NOTHING_TO_HIDE(**figures) if size else CopyReason.NO_SIZE_FITS()
        return replace(verdict, reasons=(*verdict.reasons, unseen))
    bench.say(f"racing with batches from memory, {size.batch} pictures of {size.side} px each")
    return of_race(verdict, race_at(bench.contest, size), size, bench.contest)


def race_at(contest: Contest, size: CopySize) -> RaceResult:
    """Race both scripts at a size, with batches from memory: how fast they are loaded is none of this part."""
    assert contest.with_sizes
    sized = contest.with_sizes(image_size=size.side, batch_size=size.batch, max_items=None, wasted_time=0.0)
    with sized.script(sized.original) as before, sized.script(sized.candidate) as after:
        steps = 0
        for script in (before, after):
            script.epoch_steps = None  # of all pictures, which are more than in the other checks
            for _ in range(FIRST_EPOCHS):
                steps = script.epoch(Proceed(keep_batches=True)).report.steps
        steps *= math.ceil(LAP_S / (steps * size.step_s))

        def lap(script: JudgedScript) -> float:
            return script.epoch(Proceed(steps=steps, from_memory=True)).seconds_in(RACED) / steps

        lap(before), lap(after)
        return race(lambda: lap(before), lambda: lap(after), lambda: 1.0, RACE_S)


def of_race(verdict: Verdict, result: RaceResult, size: CopySize, contest: Contest) -> Verdict:
    """Return a verdict with what a race at a size has shown: it is done only with a speedup that is certain."""
    before_s = geometric_mean(pair.before_s for pair in result.pairs)
    after_s = geometric_mean(pair.after_s for pair in result.pairs)
    original, (low, high) = contest.original.name, result.interval
    times = {"before_ms": before_s * 1e3, "after_ms": after_s * 1e3, "ratio": result.ratio, "low": low, "high": high}
    sizes = {"side": size.side, "batch": size.batch, "share": size.share}
    advice = {True: None, False: CopyAdvice.NO_SPEEDUP(), None: CopyAdvice.TOO_CLOSE()}[result.faster]
    return replace(
        verdict,
        outcome=OUTCOMES[result.faster],
        reasons=(*verdict.reasons, CopyReason.SPEEDUP(original=original, **sizes, **times)),
        timing=Timing(original, contest.candidate.name, before_s, after_s, "a step", len(result.pairs)),
        next=NextStep(words=advice) if advice else verdict.next,
    )


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
