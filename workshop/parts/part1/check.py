"""Part 1: which resource is busy?"""

from dataclasses import replace

from workshop.harness.observation import Observation
from workshop.harness.verdict import Outcome, Verdict

IDLE, BUSY = 0.4, 0.6
"""Between them, nobody is wrong."""


def answer(observation: Observation) -> Verdict:
    """Ask, and then see what the script makes of the machine."""
    answer = observation.answer("cpu", "gpu", "none")
    usage = observation.usage()
    shares = {"cpu": usage.cpu} | ({"gpu": usage.gpu} if usage.gpu is not None else {})
    busiest = max(shares, key=lambda name: shares[name])
    right = ({busiest} if shares[busiest] > IDLE else set()) | ({"none"} if shares[busiest] < BUSY else set())

    gpu = "there is no GPU here" if usage.gpu is None else f"the busiest GPU for {usage.gpu:.0%} of it"
    busy = f"the run kept the cores busy for {usage.cpu:.0%} of the time; {gpu}"
    waits = f"for {usage.data_wait:.0%} of the time the training loop waited for data"
    if answer in right:
        verdict = observation.verdict(Outcome.DONE, busy, waits)
    else:
        verdict = observation.verdict(Outcome.NOT_YET, f"{answer!r} is not what was measured: {busy}", waits)
    figures = {
        "CPU, this run": usage.cpu,
        "CPU, all programs": usage.host_cpu,
        "GPU": usage.gpu,
        "memory": usage.memory,
        "data wait": usage.data_wait,
    }
    return replace(verdict, shares={name: share for name, share in figures.items() if share is not None})
