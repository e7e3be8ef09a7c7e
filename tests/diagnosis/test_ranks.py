"""Which of several ranks the others wait for."""

import pytest
from made_measurements import made_steps

from workshop.diagnosis.measurement import Measurement
from workshop.diagnosis.ranks import slow_rank, waits_ms
from workshop.probe.messages import Circumstances
from workshop.probe.phases import Phase

STEP_S = 0.1


def rank(late_s: float, first_step: int = 0, count: int = 10, distributed: bool = True) -> Measurement:
    """A rank that begins each backward pass so late; all end it together."""
    phases_ms = {Phase.DATA_WAIT: 10 + 1e3 * late_s, Phase.BACKWARD: 90 - 1e3 * late_s}
    begun_s = tuple(STEP_S * step + 0.01 + late_s for step in range(first_step, first_step + count))
    steps = made_steps(phases_ms, count, first_step=first_step, backward_s=begun_s)
    return Measurement(steps, circumstances=Circumstances(distributed=distributed))


def test_the_others_wait_for_the_rank_that_comes_last() -> None:
    ranks = {0: rank(0.0, first_step=3), 1: rank(0.04, count=12), 2: rank(0.01)}
    assert waits_ms(ranks) == pytest.approx({0: 40.0, 1: 0.0, 2: 30.0})
    slow, findings = slow_rank(ranks, waits_ms(ranks))
    assert slow == 1
    assert [(each.cause, each.phase, each.process) for each in findings] == [("slow-rank", "data wait", "rank 1")]
    assert findings[0].ms_a_step == pytest.approx(35.0), "what half of the others wait at least"


def test_processes_that_never_meet_wait_for_none() -> None:
    ranks = {0: rank(0.0, distributed=False), 1: rank(0.04, distributed=False)}
    assert waits_ms(ranks) == {0: 0.0, 1: 0.0}
    assert slow_rank(ranks, waits_ms(ranks))[1] == []


def test_ranks_that_come_together_wait_for_none() -> None:
    ranks = {0: rank(0.001), 1: rank(0.002)}
    _, findings = slow_rank(ranks, waits_ms(ranks))
    assert all(each.gain < 1.05 for each in findings)


def test_ranks_without_a_step_in_common_cannot_be_compared() -> None:
    assert waits_ms({0: rank(0.0), 1: rank(0.05, first_step=20)}) == {0: 0.0, 1: 0.0}


def test_one_rank_waits_for_nobody() -> None:
    assert slow_rank({0: rank(0.0)}, {0: 0.0}) == (0, [])
