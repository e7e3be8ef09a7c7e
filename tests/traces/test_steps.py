"""The steps of a training and their phases, what costs time in them, and the rank that makes the others wait."""

from typing import Any

import pytest
from made_traces import a_step, launched

from workshop.probe.phases import TRACED
from workshop.traces.steps import stragglers, traced_steps
from workshop.traces.trace_findings import findings

QUICK, SLOW = {"work": 100, "talk": 50}, {"work": 149, "talk": 1}


def test_phases_of_steps_add_up(trace: Any) -> None:
    found = traced_steps(trace(a_step(4, 0), a_step(5, 1000)))
    assert [step.number for step in found] == [4, 5]
    for step in found:
        assert tuple(step.phases) == TRACED
        assert sum(step.phases.values()) == step.end - step.start
    microseconds = {name: time / 1000 for name, time in found[1].phases.items() if time}
    assert microseconds == {"data wait": 20, "forward": 30, "backward": 25, "optimizer": 10, "other": 15}


def test_findings_are_ordered_by_what_they_cost(trace: Any) -> None:
    kernels = launched("gemm", (21, 1), (22, 5)), launched("gemm", (121, 1), (122, 5))
    found = findings({0: trace(a_step(1, 0), a_step(2, 100), *kernels)})
    assert [finding.share for finding in found] == sorted((finding.share for finding in found), reverse=True)
    assert found[0].topic == "host_wait"
    assert found[0].share == pytest.approx(95 / 200), "of the time of both steps"
    [data] = [finding for finding in found if finding.topic == "data wait"]
    assert data.share == 0.2
    assert "waits for data for 20%" in data.text


def test_a_step_that_takes_longer_than_the_others(trace: Any) -> None:
    steps = [a_step(number, 1000 * number, work=900 if number == 3 else 100) for number in range(6)]
    [found] = [each for each in findings({0: trace(*steps)}) if each.topic == "long steps"]
    assert "1 of 6 steps" in found.text
    assert found.share == pytest.approx(800 / (5 * 100 + 900), rel=0.2)
    assert not any(each.topic == "long steps" for each in findings({0: trace(*steps[:3], *steps[4:])}))


def test_who_makes_the_others_wait(trace: Any) -> None:
    ranks = {
        0: trace(a_step(1, 0, **QUICK), a_step(2, 200, work=110, talk=40)),
        1: trace(a_step(1, 0, **SLOW), a_step(2, 200, **SLOW), a_step(3, 400)),
    }
    slow, quick = stragglers(ranks)
    assert (slow["rank"], quick["rank"]) == (1, 0)
    assert (slow["steps"], slow["behind(us)"], quick["behind(us)"]) == (2, 44, 0)
    assert ["rank 1 is the slowest" in each.text for each in findings(ranks) if each.topic == "slow rank"] == [True]


def test_cycles_of_a_rank_are_one_rank(trace: Any) -> None:
    cycles = {
        f"{rank} (rank{rank}.cycle{cycle})": trace(a_step(1 + 8 * cycle, 0, **options))
        for rank, options in enumerate((QUICK, SLOW))
        for cycle in range(2)
    }
    assert [(row["rank"], row["steps"]) for row in stragglers(cycles)] == [(1, 2), (0, 2)]
    assert stragglers({name: each for name, each in cycles.items() if name.startswith("0")}) == []
