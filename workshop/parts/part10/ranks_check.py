"""Part 10: several ranks train one model together, and each item is used once an epoch."""

from workshop.judge.ranks import RanksBench
from workshop.judge.verdict import Outcome, Verdict


def check(bench: RanksBench) -> Verdict:
    """Judge whether the ranks together do the same work, and tell how much faster they are, if that can be measured."""
    bench.train()
    if refused := bench.refusal():
        return refused
    together = (
        f"{bench.count} ranks train one model: each item once an epoch, the same parameters on all after "
        "each step, and the steps are those of one process"
    )
    return Verdict(bench.subject, Outcome.DONE, (together, bench.speed()))
