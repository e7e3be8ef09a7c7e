"""Part 4: the line in `__getitem__` that takes the time."""

from workshop.harness.observation import Observation
from workshop.harness.verdict import Verdict


def answer(observation: Observation) -> Verdict:
    """Hold the answer against the participant's own line profile."""
    return observation.judge_line()
