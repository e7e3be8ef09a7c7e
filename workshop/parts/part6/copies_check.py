"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

import math
import os
from itertools import pairwise
from pathlib import Path
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.signatures import is_same, values_of
from workshop.judge.verdict import NotLookedAt, Outcome, Timing, Verdict
from workshop.parts.part6.device_copies import DeviceCopies, copies_in
from workshop.probe.messages import Proceed
from workshop.traces.decoding import TraceError
from workshop.traces.trace import Trace, read

EPOCHS = 5
"""The number of epochs of which the median is the time of a step."""

BLOCKING = "CUDA_LAUNCH_BLOCKING"

SEEN_ON_CUDA = ("pin_memory", "non_blocking", "a stream of their own", "the speed")
"""What is looked at only on a CUDA device, where there is a copy to hide."""

UNSEEN = "how they were copied was not seen: torch.profiler saw no copies"

FAULTS = {
    "pinned": ("come from memory that is not pinned", "Give the DataLoader pin_memory=True."),
    "unwaited": (
        "are waited for before the next kernel is launched, or by that kernel",
        "Copy with .to(device, non_blocking=True), and call wait_stream only just before a batch is used.",
    ),
    "apart": ("run on the stream of the kernels, so one after the other", "Copy on a torch.cuda.Stream() of its own."),
}
"""Why a copy holds something up, by the column of `DeviceCopies` that is false, and what to do."""


def check(bench: Bench) -> Verdict:
    """Judge the same work, then the order of copies and forward passes; on CUDA, also the copies themselves."""
    bench.start()
    if refused := bench.refusal():
        return refused
    ledger = bench.ledger()
    ahead, again, batches = copied_ahead(ledger, bench.steps)
    if again > batches / 2:
        twice = f"{again} of {batches} batches were copied to the device more than once: hand on the copy made ahead"
        return Verdict(bench.subject, Outcome.OTHER_WORK, (twice,))
    found = f"{ahead} of {batches} batches were copied to the device before the model began with the batch before them"
    if ahead < batches:
        hint = "Copy the next batch before you train on the present one; .to(device) counts on a CPU, too."
        return Verdict(bench.subject, Outcome.NOT_YET, (found,), next=hint)
    reasons = (found, "every item came once an epoch, the last batch included")
    if ledger.forwards[0].device != "cuda":
        unlooked = NotLookedAt(ledger.forwards[0].device, SEEN_ON_CUDA)
        return Verdict(bench.subject, Outcome.DONE, reasons, not_looked_at=unlooked)
    return on_cuda(bench, reasons)


def on_cuda(bench: Bench, reasons: tuple[str, ...]) -> Verdict:
    """Judge how the batches are copied to a CUDA device, and measure what is gained by it."""
    if os.environ.get(BLOCKING, "0") not in ("", "0"):
        fault = f"{BLOCKING} is set: every call waits until the GPU has done its work"
        return Verdict(bench.subject, Outcome.NOT_YET, (*reasons, fault), next=f"For the check, type: unset {BLOCKING}")
    trace = traced(bench.candidate)
    fault, hint = fault_of(copies_in(trace)) if trace else (UNSEEN, "")
    usual_s, step_s = map(step_time, (bench.original, bench.candidate))
    name = bench.contest.original.name
    step = f"a step takes {step_s * 1e3:.1f} ms, in {name} {usual_s * 1e3:.1f} ms: speedup {usual_s / step_s:.2f}x"
    before, after = bench.contest.original_name, bench.contest.candidate.name
    timing = Timing(before, after, usual_s, step_s, "a step", EPOCHS)
    outcome = Outcome.NOT_YET if hint else Outcome.DONE
    return Verdict(bench.subject, outcome, (*reasons, fault, step), next=hint, timing=timing)


def fault_of(copies: DeviceCopies) -> tuple[str, str]:
    """Say how most batches are copied, and what to do; nothing is to be done if copies can run beside the kernels."""
    number = len(copies.pinned)
    if not number:
        return UNSEEN, ""
    for column, (fault, hint) in FAULTS.items():
        faulty = number - int(getattr(copies, column).sum())
        if 2 * faulty > number:
            return f"{faulty} of {number} copies {fault}", hint
    return "they are copied from pinned memory, on a stream of their own, and nothing waits for them too early", ""


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
