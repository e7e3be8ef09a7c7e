"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

import math
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.signatures import is_same, values_of
from workshop.judge.verdict import NextStep, NotLookedAt, Outcome, Timing, Verdict
from workshop.parts.part6.device_copies import DeviceCopies, copies_in
from workshop.probe.messages import Proceed
from workshop.traces.decoding import TraceError
from workshop.traces.trace import Trace, read

EPOCHS = 5
"""Epochs of which the median is the time of a step."""

BLOCKING = "CUDA_LAUNCH_BLOCKING"

SEEN_ON_CUDA = ("pin_memory", "non_blocking", "a stream of their own", "the speed")
"""What is looked at only on a CUDA device, where there is a copy to hide."""


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
    if os.environ.get(BLOCKING, "0") not in ("", "0"):
        blocking = CopyReason.LAUNCH_BLOCKING(variable=BLOCKING)
        unset = NextStep(words=CopyAdvice.UNSET(variable=BLOCKING))
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
