"""What changed between two runs, and what of it is noise."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import a_step, event, launched, made_up, write

from workshop.traces import read
from workshop.traces.breakdown import operators
from workshop.traces.comparison import NO_OPERATOR, compare, has_steps, step_times
from workshop.traces.comparison_text import milliseconds, sentences
from workshop.traces.event_columns import at_the_top
from workshop.traces.steps import traced_steps
from workshop.traces.trace import Trace


def _steps(seed: int, work: float = 100, wait: float = 0) -> list[Any]:
    """Twelve steps whose time varies by some percent, and which wait for data for some µs more."""
    chance = random.Random(seed)
    events = []
    for number in range(12):
        step, data, *others = a_step(number, 1000 * number, work=work + chance.gauss(0, 3))
        longer = ({**each, "dur": each["dur"] + wait} for each in (step, data))
        events += [*longer, *({**each, "ts": each["ts"] + wait} for each in others)]
    return events


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), ranks=st.integers(1, 3))
def test_the_terms_sum_up_to_the_difference_of_a_step(seed: int, ranks: int, tmp_path: Any) -> None:
    before = {0: read(write(tmp_path / "before.json", made_up(seed)))}
    after = {rank: read(write(tmp_path / f"{rank}.json", made_up(seed + 1 + rank))) for rank in range(ranks)}
    found = compare(before, after)  # type: ignore[arg-type]
    for table in ("phases", "operators"):
        shown = math.fsum(change.difference_ns for change in found.tables[table])
        assert shown == pytest.approx(found.step.difference_ns, abs=1e-3)
    assert all(sentences(found))


def test_noise_is_called_noise(trace: Any) -> None:
    traces = [trace(_steps(seed)) for seed in range(160)]
    alarms = [
        not compare({0: one}, {0: other}).step.is_noise for one, other in zip(traces[::2], traces[1::2], strict=True)
    ]
    assert 2 <= sum(alarms) <= 8, "about 5 % of 80"
    said = sentences(compare({0: traces[0]}, {0: traces[1]}))[0]
    assert said.startswith("No difference beyond noise: a step takes 0.")
    assert "11 steps against 11" in said
    assert "would have been seen four times in five" in said


def test_a_trace_does_not_differ_from_itself(trace: Any) -> None:
    for one in (trace(_steps(1)), trace(a_step(1, 0)), trace(event("cpu_op", "aten::add", 0, 5))):
        found = compare({0: one}, {0: one})
        assert sentences(found)[0].startswith("No difference beyond noise")
        assert all(change.is_noise for changes in found.tables.values() for change in changes)


def test_a_difference_is_said_in_words(trace: Any) -> None:
    slow = _steps(1, wait=300)
    found = compare({0: trace(slow)}, {0: trace(_steps(2))})
    step, parts, operator = sentences(found)
    assert "4.0" in step.split("x (")[0]
    assert "95 % interval 0.29" in step
    assert parts == "Of that: 0.300 ms less waiting for data."
    assert operator.endswith("0.300 ms less without an operator, waiting for data.")
    [data] = [change for change in found.tables["phases"] if not change.is_noise]
    assert (data.name, data.difference_ns) == ("data wait", -300_000)
    again = sentences(compare({0: trace(_steps(2))}, {0: trace(slow)}))[0]
    assert "slowdown" in again
    assert "0.301 ms more" in again or "0.299 ms more" in again or "0.300 ms more" in again


def test_a_small_difference_is_said_in_percent(trace: Any) -> None:
    before, after = (
        trace([event("user_annotation", f"ProfilerStep#{k}", 101_000 * k, time + k) for k in range(12)])
        for time in (100_040, 100_400)
    )
    said = sentences(compare({0: before}, {0: after}))[0]
    assert said.startswith("A step takes 100.41 ms instead of 100.05 ms, 0.36 % more (0.360 ms more, ")


def test_what_is_new_and_what_is_gone(trace: Any) -> None:
    def with_operator(name: str) -> Trace:
        return trace(_steps(3), [event("cpu_op", name, 1000 * number + 51, 3) for number in range(12)])

    found = compare({0: with_operator("aten::old")}, {0: with_operator("aten::young")})
    remarks = {change.name: change.remark for change in found.tables["operators"]}
    assert (remarks["aten::old"], remarks["aten::young"], remarks["aten::mm"]) == ("gone", "new", "noise")
    said = sentences(found)
    assert "New operators on the thread that trains: aten::young (0.00300 ms)." in said
    assert "Gone operators on the thread that trains: aten::old (0.00300 ms)." in said


def test_runs_that_are_not_alike(trace: Any) -> None:
    kernels = [launched("gemm", (1000 * number + 21, 1), (1000 * number + 22, 5)) for number in range(12)]
    one = trace(_steps(1))
    two = {rank: trace(_steps(rank), *kernels) for rank in range(2)}
    said = sentences(compare({0: one}, two))  # type: ignore[arg-type]
    assert "There are 1 rank before, 2 after; all times are those of a mean rank." in said
    assert "Only after, something ran on a device." in said
    assert any(each.startswith("By kernel, on the device: 0.00500 ms more in gemm") for each in said)

    bare = trace(event("cpu_op", "triton", 10, 5))
    said = sentences(compare({0: one}, {0: bare}))
    assert said[0].startswith("The whole recording takes 0.00500 ms instead of 11.1 ms, a speedup of ")
    assert "cannot be told from one recording" in said[0]
    assert "At least one of the two has no steps of the profiler, so the whole recordings are compared." in said
    assert "The two have no operator in common, as different programs do." in said


def test_what_sums_up_comes_in_the_order_of_its_change(trace: Any) -> None:
    found = compare({0: trace(_steps(1))}, {0: trace(_steps(2, work=130))})
    assert found.tables["operators"][0].name == f"{NO_OPERATOR}other"
    assert [change.is_noise for change in found.tables["operators"]] == [False, *[True] * 6]
    row = found.tables["phases"][0].row()
    assert row["least(us)"] < row["difference(us)"] < row["most(us)"]
    assert (row["noise"], row["presence"]) == (False, "both")


@pytest.mark.parametrize(
    ("ns", "said"), [(2.5e9, "2,500"), (-123.4e6, "123"), (12.34e6, "12.3"), (1.2345e3, "0.00123"), (0.0, "0")]
)
def test_times_have_three_digits(ns: float, said: str) -> None:
    assert milliseconds(ns) == said


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
