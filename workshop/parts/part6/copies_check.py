"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.judged_script import JudgedScript
from workshop.judge.ledger import Ledger, epochs, forwards_in
from workshop.judge.signatures import is_same, values_of
from workshop.judge.verdict import Outcome, Timing, Verdict
from workshop.probe.messages import Proceed
from workshop.traces.intervals import overlap, union_of

EPOCHS = 5
"""The number of epochs of which the median is the time of a step."""

MIN_HIDDEN = 0.1
"""With a smaller share of the copy time under kernels, nothing overlaps: a part of the prefetcher is missing."""


def check(bench: Bench) -> Verdict:
    """Judge the same work, then the order of copies and forward passes; on CUDA, also what is gained by it."""
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
        unmeasured = f"the speed was not measured: on {ledger.forwards[0].device} there is no copy to hide"
        return Verdict(bench.subject, Outcome.DONE, (*reasons, unmeasured))
    (usual_hidden, usual_ms), (hidden, ms) = map(measured_copies, (bench.original, bench.candidate))
    name = bench.contest.original.name
    outcome = Outcome.DONE if hidden >= MIN_HIDDEN else Outcome.NOT_YET
    hides = f"{hidden:.0%} of the copy time is hidden under kernels, in {name} {usual_hidden:.0%}"
    step = f"a step takes {ms:.1f} ms, in {name} {usual_ms:.1f} ms: speedup {usual_ms / ms:.2f}x"
    before, after = bench.contest.original_name, bench.contest.candidate.name
    timing = Timing(before, after, usual_ms / 1e3, ms / 1e3, "a step", EPOCHS)
    return Verdict(bench.subject, outcome, (*reasons, hides, step), timing=timing)


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


def measured_copies(script: JudgedScript) -> tuple[float, float]:
    """On CUDA: return the share of a script's copy time that is hidden under kernels, and the time of a step in ms."""
    script.epoch()
    hidden = hidden_share(script.epoch(Proceed(trace_copies=True)).report.copy_trace or {})
    return hidden, median(script.epoch().seconds for _ in range(EPOCHS)) / (script.epoch_steps or 1) * 1e3


def hidden_share(trace: Mapping[str, Sequence[tuple[int, int]]]) -> float:
    """Return the share of the time of "copies" that lies under "kernels"; of each, start and end are given."""
    copies, kernels = (union_of(trace.get(kind, ())) for kind in ("copies", "kernels"))
    return overlap(copies, kernels).length / copies.length if copies.length else 0.0
