"""Part 5: a second run finds on disk what the first one read slowly, and augments it anew."""

from itertools import pairwise

from workshop.judge.bench import Bench
from workshop.judge.inputs import share_again
from workshop.judge.ledger import epochs
from workshop.judge.photo_proof import slow_reads
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.verdict import NextStep, Outcome, Verdict


class CacheReason(ReasonKind):
    """What is said of a cache on disk."""

    NOTHING_KEPT = "nothing is kept: {slow} of {items} photos were read slowly again in the second epoch"
    EPOCH_IN_KEY = (
        "the cache is of no use within a run ({slow} of {items} photos were read slowly again in the second epoch), "
        "and a second run sees the very pictures of the first, with the same augmentations: the epoch is part of its "
        "key; keep each item once, before the augmentation"
    )
    GONE_WITH_PROCESS = (
        "what is kept is gone with the process: a second run read {slow} of {items} photos slowly again; keep the "
        "items on disk, under the config's cache_dir"
    )
    EMPTY_CACHE = "the first epoch, on an empty cache, ran at {rate:.1f} samples/s"


def check(bench: Bench) -> Verdict:
    """Judge the same work, then a second run on the cache of the first one, then the speed of that run."""
    bench.start()
    if refused := bench.refusal():
        return refused
    bench.restart()
    bench.train(1)
    if reason := why_not_cached(bench):
        return Verdict(bench.subject, Outcome.NOT_YET, (reason,), next=NextStep(("workshop show part5",)))
    return bench.refusal() or bench.race(CacheReason.EMPTY_CACHE(rate=cold_rate(bench)))


def cold_rate(bench: Bench) -> float:
    """Return the samples per second of the very first epoch, from iter(loader) on."""
    ledger = bench.ledger()
    begin = ledger.loader_starts[0] if ledger.loader_starts else ledger.reads[0].t
    return bench.contest.items / (epochs(ledger, bench.steps)[0][-1].t - begin)


def why_not_cached(bench: Bench) -> Reason | None:
    """Return what a cache on disk lacks, judged by the slow reads of two runs; None if it works."""
    ledger, items = bench.ledger(), bench.contest.items
    runs = [[epoch for epoch in epochs(ledger, bench.steps) if epoch[0].run_index == run] for run in (0, 1)]
    ends = [epoch[-1].t for run in runs for epoch in run]  # of both epochs of the first run, and the second run's first
    reads = slow_reads(ledger, bench.contest.wasted_time_s or 0.0)
    slow = [sum(begin < read.t <= end for read in reads) for begin, end in pairwise([0.0, *ends])]
    if slow[1] >= items / 2:
        is_repeated = share_again(runs[0][0], runs[1][0]) > 0.5
        kind = CacheReason.EPOCH_IN_KEY if is_repeated else CacheReason.NOTHING_KEPT
        return kind(slow=slow[1], items=items)
    return CacheReason.GONE_WITH_PROCESS(slow=slow[2], items=items) if slow[2] >= items / 2 else None
