"""Part 10: several ranks train one model together, and each item is used once an epoch."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from workshop.judge.bench import Bench
from workshop.judge.ledger import Ledger
from workshop.judge.race import MIN_PAIRS
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.running_scripts import JudgedRanks
from workshop.judge.verdict import NextStep, Outcome, Timing, Verdict
from workshop.probe.own_limits import usable_cores

CORES_FOR_A_RANK = 4
"""Cores for each rank, at least, to time ranks on a CPU: with fewer, they only take the cores from each other."""


class RankReason(ReasonKind):
    """What is said of ranks that train together."""

    SEPARATE = (
        "the {ranks} ranks know nothing of each other: each trains a model of its own on all items; "
        "torch.distributed.init_process_group is missing"
    )
    TOGETHER = (
        "{ranks} ranks train one model: each item once an epoch, the same parameters on all after each step, and the "
        "steps are those of one process"
    )
    NOT_TIMED = (
        "whether {ranks} ranks are faster than one cannot be measured here: it takes a GPU, or {needed} cores, for "
        "each, and there are {cores} cores"
    )
    SPEEDUP = "speedup {ratio:.2f}x of {after} over one"


def check(bench: Bench) -> Verdict:
    """Judge whether the ranks together do the same work, and tell how much faster they are, if that can be measured."""
    bench.start()
    bench.train(1)
    bench.align()
    ranks = bench.ledger().ranks
    then = NextStep((f"workshop show {bench.subject}",))
    if reason := why_separate(ranks):
        return Verdict(bench.subject, Outcome.NOT_YET, (reason,), next=then)
    if refused := bench.refusal():
        return replace(refused, next=then)
    together = RankReason.TOGETHER(ranks=len(ranks))
    if unmeasured := why_not_timed(len(ranks), on_cpu=ranks[0].forwards[0].device == "cpu"):
        return Verdict(bench.subject, Outcome.DONE, (together, unmeasured))
    timing = timing_of(bench)
    speedup = RankReason.SPEEDUP(ratio=timing.ratio, after=timing.after)
    return Verdict(bench.subject, Outcome.DONE, (together, speedup), timing=timing)


def why_separate(ranks: Sequence[Ledger]) -> Reason | None:
    """Return why the ranks of a run are several trainings; None if they know of each other."""
    are_one = {ledger.model.ranks for ledger in ranks if ledger.model} == {len(ranks)}
    return None if are_one else RankReason.SEPARATE(ranks=len(ranks))


def why_not_timed(count: int, on_cpu: bool) -> Reason | None:
    """Return why this machine cannot tell how much faster that many ranks are; None if it can."""
    cores = usable_cores()
    if not on_cpu or cores >= CORES_FOR_A_RANK * count:
        return None
    return RankReason.NOT_TIMED(ranks=count, needed=CORES_FOR_A_RANK, cores=cores)


def timing_of(bench: Bench) -> Timing:
    """Time an epoch of one rank, and of all, in turn."""
    bench.say("starting one rank beside them, to see how much faster they are")
    with JudgedRanks(bench.contest, count=1) as one:
        one.epoch()
        pairs = [(_seconds(one), _seconds(bench.ranks)) for _ in range(MIN_PAIRS)]
    before_s, after_s = map(median, zip(*pairs, strict=True))
    return Timing("one rank", f"{len(bench.ranks.scripts)} ranks", before_s, after_s, "an epoch", MIN_PAIRS)


def _seconds(ranks: JudgedRanks) -> float:
    begin = time.perf_counter()
    ranks.epoch()
    return time.perf_counter() - begin
