"""What steps are made of: exact sums, whatever the trace, and which steps are compared."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import a_step, event, launched, made_up, write

from workshop.traces import Trace, read
from workshop.traces.breakdown import operators
from workshop.traces.comparison.step_times import NO_OPERATOR, has_steps, step_times
from workshop.traces.nesting import at_the_top
from workshop.traces.steps import traced_steps


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), by_step=st.booleans())
def test_phases_and_operators_sum_up_to_each_step(seed: int, by_step: bool, tmp_path: Path) -> None:
    traces = {rank: read(write(tmp_path / f"{rank}.json", made_up(seed + rank))) for rank in range(2)}
    by_step &= has_steps(traces)  # type: ignore[arg-type]
    found = step_times(traces, by_step)  # type: ignore[arg-type]
    for table in ("phases", "operators"):
        assert np.array_equal(sum(found.tables[table].values()), found.duration)
    assert all((time >= 0).all() for times in found.tables.values() for time in times.values())
    if not by_step:
        for table in ("kernels", "streams"):
            launches = sum(int(time.sum()) for time in found.tables[table].values())
            assert launches <= sum(int(trace.gpu.dur.sum()) for trace in traces.values())


def test_phases_are_those_of_the_steps(trace: Any) -> None:
    one = trace(*(a_step(number, 200 * number) for number in range(3)))
    found = step_times({0: one}, True)
    for phase, times in found.tables["phases"].items():
        assert times.tolist() == [step.phases[phase] for step in traced_steps(one)]


def test_self_times_are_those_of_the_operators(trace: Any) -> None:
    one = trace(a_step(0, 0), a_step(1, 200))
    times = step_times({0: one}, True).tables["operators"]
    own = {row["name"]: round(row["self_cpu(us)"] * 1000) for row in operators(one)}
    assert {name: int(time.sum()) for name, time in times.items() if not name.startswith(NO_OPERATOR)} == own
    assert times[f"{NO_OPERATOR}data wait"].tolist() == [20_000, 20_000]


@settings(max_examples=60)
@given(times=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=20))
def test_of_operators_that_overlap_the_latest_runs(times: list[tuple[int, int]], trace: Any) -> None:
    """As when each is painted over those that began before it, and a shorter one over a longer one."""
    times.sort(key=lambda each: (each[0], -each[1]))
    one: Trace = trace([event("cpu_op", f"op{number}", *each) for number, each in enumerate(times)])
    painted: dict[int, str] = {}
    for number, (start, dur) in enumerate(times):
        painted |= dict.fromkeys(range(start, start + dur), f"op{number}")
    rows, spans = at_the_top(one.events)
    assert (spans.start[1:] >= spans.end[:-1]).all()
    found: dict[int, str] = {}
    for name, start, end in zip(one.events.name[rows], spans.start // 1000, spans.end // 1000, strict=True):
        found |= dict.fromkeys(range(start, end), one.names[name])
    assert found == painted


def test_the_first_of_many_steps_is_left_out(trace: Any) -> None:
    few, many = (trace(*(a_step(number, 200 * number) for number in range(count))) for count in (3, 4))
    assert len(step_times({0: few}, True).duration) == 3
    found = step_times({0: many}, True)
    assert len(found.duration) == 3
    assert found.begins == {0: 200_000}


def test_a_step_of_all_ranks_is_one_sample(trace: Any) -> None:
    ranks = {
        0: trace(a_step(1, 0), a_step(2, 200)),
        1: trace(a_step(2, 7000, work=110), a_step(3, 7200)),
    }
    found = step_times(ranks, True)  # type: ignore[arg-type]
    assert (found.ranks, found.duration.tolist()) == (2, [210_000])
    twice = ranks | {"1 (again)": ranks[1]}
    assert step_times(twice, True).duration.tolist() == [210_000]  # type: ignore[arg-type]
    apart = step_times({0: ranks[0], 1: trace(a_step(8, 0), a_step(9, 200))}, True)
    assert apart.duration.tolist() == [200_000, 200_000], "ranks that share no number share the first step"


def test_kernels_count_for_the_step_that_launched_them(trace: Any) -> None:
    late = launched("gemm", (50, 1), (150, 30))
    found = step_times({0: trace(a_step(1, 0), a_step(2, 100), late)}, True)
    assert found.tables["kernels"]["gemm"].tolist() == [30_000, 0]
    assert {name: time.tolist() for name, time in found.tables["streams"].items()} == {"stream 7": [30_000, 0]}
    assert found.on_device


def test_without_steps_the_recording_is_one(trace: Any) -> None:
    one = trace(event("cpu_op", "aten::add", 10, 5), event("cpu_op", "aten::mul", 30, 10))
    assert not has_steps({0: one})
    found = step_times({0: one}, False)
    assert found.duration.tolist() == [30_000]
    assert found.tables["phases"] == {"forward": [15_000], "other": [15_000]}
