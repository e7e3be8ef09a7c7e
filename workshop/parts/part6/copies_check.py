"""Part 6: the next batch is on its way before the present one is used, and none is lost."""

from workshop.judge.bench import Bench
from workshop.judge.copies import copied_ahead, measured_copies
from workshop.judge.verdict import Outcome, Verdict

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
    return Verdict(bench.subject, outcome, (*reasons, hides, step))
