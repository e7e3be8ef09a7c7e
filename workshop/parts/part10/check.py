"""Part 10: several ranks that train one model, each item once; and which of them the others wait for."""

from workshop.judge.ranks import RanksBench
from workshop.judge.verdict import Outcome, Verdict


def check(bench: RanksBench) -> Verdict:
    """Judge the same work, shared out; then how much faster that is, where the machine can tell."""
    bench.train()
    if refused := bench.refusal():
        return refused
    together = (
        f"{bench.count} ranks train one model: each item once an epoch, the same parameters on all after "
        "each step, and the steps are those of one process"
    )
    return Verdict(bench.subject, Outcome.DONE, (together, bench.speed()))
