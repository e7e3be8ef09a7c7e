"""Annotations, operators and what is launched inside them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import event, launched

from workshop.traces import annotations
from workshop.traces.event_columns import around, inside, outermost
from workshop.traces.hta import frames, operator_kernels
from workshop.traces.steps import step_numbers, without_last_step

ANNOTATED = (
    event("user_annotation", "forward", 0, 100),
    event("user_annotation", "loss", 50, 40),
    *(launched(f"k{n}", (ts, 2), (ts + 100, 15)) for n, ts in enumerate((10, 20, 60, 120))),
)


def test_the_time_of_annotations(trace: Any) -> None:
    found = {row["name"]: row for row in annotations.annotation_rows(trace(*ANNOTATED))}
    assert list(found) == ["forward", "loss"]
    assert (found["forward"]["cpu count"], found["forward"]["cpu sum (us)"]) == (1, 100)
    assert (found["forward"]["gpu sum (us)"], found["loss"]["gpu sum (us)"]) == (25 + 15, 15)
    recorded = trace(*ANNOTATED, event("gpu_user_annotation", "forward", 110, 65, stream=7))
    found = {row["name"]: row for row in annotations.annotation_rows(recorded)}
    assert (found["forward"]["gpu sum (us)"], found["loss"]["gpu count"]) == (65, 0)


def test_the_innermost_annotation_of_a_kernel(trace: Any) -> None:
    found = trace(*ANNOTATED)
    names = ["" if name < 0 else found.names[name] for name in annotations.of_kernels(found)]
    assert names == ["forward", "forward", "loss", ""]
    marks = [("forward", 110, 65), ("loss", 134, 40)]  # loss begins while k1 runs
    found = trace(*ANNOTATED, *(event("gpu_user_annotation", *mark, stream=7) for mark in marks))
    names = ["" if name < 0 else found.names[name] for name in annotations.of_kernels(found)]
    assert names == ["forward", "loss", "loss", ""]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=12))
def test_what_is_inside_what(trace: Any, times: list[tuple[int, int, int]]) -> None:
    events = trace(*(event("cpu_op", "op", ts, dur) | {"tid": tid} for ts, dur, tid in times)).events
    one, other = inside(events, events)
    expected = {
        (row, each)
        for row, (ts, dur, tid) in enumerate(times)
        for each, (start, length, thread) in enumerate(times)
        if tid == thread and ts <= start and start + length <= ts + dur
    }
    assert {*zip(one.tolist(), other.tolist(), strict=True)} == expected
    assert len(one) == len(expected)
    lengths = [[times[row][1] for row, each in expected if each == inner] for inner in range(len(times))]
    found = [[times[row][1] for row in rows] for rows in around(events, events)]
    assert found == [[min(each) for each in lengths], [max(each) for each in lengths]]
    roots = [each for each in range(len(times)) if all(times[row] == times[each] for row, of in expected if of == each)]
    assert {times[each] for each in roots} == {times[row] for row in outermost(events).index.tolist()}


def test_frequent_sequences(trace: Any) -> None:
    def linear(ts: float, *kernels: str) -> list[Any]:
        ops = [event("cpu_op", "aten::linear", ts, 40), event("cpu_op", "aten::linear_inner", ts + 1, 30)]
        return ops + [e for n, k in enumerate(kernels) for e in launched(k, (ts + 2 + n, 1), (ts + 50 - 9 * n, 5))]

    found = trace(linear(0, "gemm", "bias"), linear(100, "gemm", "bias"), linear(200, "bias"), linear(300))
    twice, once = operator_kernels.frequent(found, "linear")
    assert (twice.names, twice.occurrences) == (("aten::linear", "bias", "gemm"), 2)
    assert (twice.device, twice.cpu, once.names) == (20_000, 80_000, ("aten::linear", "bias"))
    assert [each.names for each in operator_kernels.frequent(found, "aten::", least=2)] == [twice.names]
    assert operator_kernels.events_in(found, once).tolist() == [12, 13, 14, 15]
    assert operator_kernels.frequent(found, "conv") == []


def test_the_kernels_of_operators_and_their_delays(trace: Any) -> None:
    rows = operator_kernels.kernels_of_operators(
        trace(
            event("cpu_op", "aten::linear", 0, 40),
            event("cpu_op", "aten::addmm", 2, 30),
            launched("gemm", (7, 2), (20, 5)),
            launched("bias", (10, 2), (25, 5)),
            launched("Memcpy HtoD", (12, 1), (30, 5)),
            event("cpu_op", "aten::addmm", 102, 30),
            launched("gemm", (103, 2), (120, 5)),
            launched("bias", (105, 2), (125, 5)),
            event("cpu_op", "aten::relu", 102, 99) | {"tid": 8},  # of another thread, it launches nothing
            launched("k", (300, 1), (310, 5)),
        )
    )
    assert rows == [
        {
            "aten_op_name": "aten::addmm",
            "kernel_sequence": "gemm -> bias",
            "occurrence_count": 2,
            "avg_aten_op_launch_delay": 3,
            "avg_runtime_delay": 15,
        }
    ]


def test_the_last_step_is_often_recorded_in_part(trace: Any) -> None:
    found = trace(
        *(event("user_annotation", f"ProfilerStep#{n}", 100 * n, 90) for n in (1, 2, 3)),
        *(launched(f"k{n}", (n * 100 + 5, 1), (n * 100 + 195, 10)) for n in (1, 2, 3)),
        event("cpu_op", "aten::add", 395, 10),
        event("kernel", "nobody launched it", 110, 5, stream=7, correlation=10**6, device=0),
    )
    numbers = {found.names[name]: n for name, n in zip(found.events.name, step_numbers(found), strict=True)}
    assert numbers == {f"ProfilerStep#{n}": n for n in (1, 2, 3)} | {f"k{n}": n for n in (1, 2, 3)} | {
        "cudaLaunchKernel": 3,
        "aten::add": -1,
        "nobody launched it": 1,
    }
    for include_last, last in ((False, 2), (True, 3)):
        left = without_last_step(found, include_last)
        names = {left.names[name] for name in left.events.name}
        assert names == {"cudaLaunchKernel"} | {f"{k}{n}" for n in range(1, last + 1) for k in ("k", "ProfilerStep#")}
    single = trace(event("user_annotation", "ProfilerStep#1", 0, 9), event("cpu_op", "aten::add", 10, 1))
    assert without_last_step(single, False) is single


def a_rank(
    trace: Any, late: tuple[int, ...], name: str = "ncclDevKernel_AllReduce", step: str = "ProfilerStep#"
) -> Any:
    """A rank whose collective operation begins so late in each step, and ends when that of all ranks does."""
    return trace(
        *(event("user_annotation", f"{step}{n}", 1000 * n, 900) for n in range(len(late))),
        *(launched(name, (1000 * n + 5, 1), (1000 * n + 100 + by, 500 - by)) for n, by in enumerate(late)),
    )


def test_ranks_that_begin_their_communication_late(trace: Any) -> None:
    traces: dict[Any, Any] = {0: a_rank(trace, (0, 90)), 1: a_rank(trace, (50, 300)), 2: a_rank(trace, (70, 200))}
    assert frames.late_starts(traces, count=2) == [1, 2]
    assert frames.late_starts(traces, steps=[0], count=1) == [2]
    assert frames.late_starts(traces, steps=[1], count=1) == [1]
    assert frames.compared_kernels(traces, [1])["ts"].tolist() == [1_190_000, 1_400_000, 1_300_000]


@pytest.mark.parametrize("name", ["gemm", "ncclDevKernel_AllReduce"])
def test_no_rank_is_late_if_nothing_can_be_compared(name: str, trace: Any) -> None:
    assert frames.late_starts({0: a_rank(trace, (0, 90), name)}) == []
    assert frames.late_starts({n: a_rank(trace, (n,), "gemm") for n in range(2)}) == []
    assert frames.late_starts({n: a_rank(trace, (), name) for n in range(2)}) == []
    without_steps = {n: a_rank(trace, (n, n), "ncclKernel_x", step="no step ") for n in range(2)}
    assert frames.late_starts(without_steps, count=1) == [1]


def test_hardware_counters_and_operators(trace: Any) -> None:
    kernels = [event("cuda_profiler_range", f"gemm{n}", 10 * n, 2, cycles=n, **{"flops.sum": 0.5}) for n in range(2)]
    calls = [event("cuda_runtime", "cudaLaunchKernel", ts, 2, correlation=ts) for ts in (52, 10)]
    ops = [event("cpu_op", "aten::mm", 8, 9), event("cpu_op", "aten::linear", 5, 20)]
    found = operator_kernels.counter_rows(trace(kernels, calls, ops))
    assert found is not None
    assert [row["name"] for row in found] == ["gemm0", "gemm1"]
    assert [row["op_stack"] for row in found] == [["aten::linear", "aten::mm"], []]
    assert (found[0]["top_level_op"], found[0]["bottom_level_op"]) == ("aten::linear", "aten::mm")
    assert [(row["cycles"], row["flops.sum"]) for row in found] == [(0, 0.5), (1, 0.5)]
    assert operator_kernels.counter_rows(trace(kernels, calls[:1])) is None
    assert operator_kernels.counter_rows(trace(calls)) is None
