"""Part 8: the phase that takes most of a step, as the trace has it."""

from workshop.harness.observation import Observation
from workshop.harness.verdict import Verdict


def answer(observation: Observation) -> Verdict:
    """Hold the answer against the participant's own trace."""
    return observation.judge_trace()
