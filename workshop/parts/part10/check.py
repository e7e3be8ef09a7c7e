"""Part 10: several ranks that train one model, each item once; and which of them the others wait for."""

from workshop.harness.observation import Observation
from workshop.harness.ranks import RanksBench
from workshop.harness.verdict import Outcome, Verdict


def answer(observation: Observation) -> Verdict:
    """Hold the answer against the participant's own traces."""
    return observation.judge_slow_rank()


def check(bench: RanksBench) -> Verdict:
    """The same work, shared out; how much faster that is, where the machine can tell."""
    bench.train()
    if refused := bench.refusal():
        return refused
    together = (
        f"{bench.trial.part.ranks} ranks train one model: each item once an epoch, the same parameters on all after "
        "each step, and the steps are those of one process"
    )
    return Verdict(bench.subject, Outcome.DONE, (together, bench.speed()))
