"""Part 7: the line in which the script waits, seen from outside."""

from workshop.harness.observation import Observation
from workshop.harness.verdict import Verdict


def answer(observation: Observation) -> Verdict:
    """Hold the answer against the participant's own recording."""
    return observation.judge_recording()
