"""What is said of an idle device: why, where that is known, and of the time around its kernels."""

from typing import Any

import pytest
from made_traces import event, function, launched

from workshop.traces.trace_findings import TraceCause, TraceFinding, all_clear, findings


def by_topic(found: Any) -> dict[str, TraceFinding]:
    """The findings of a trace, by their topic."""
    return {each.topic: each for each in findings({0: found})}


def test_no_cause_is_claimed_of_kernels_without_launches(trace: Any) -> None:
    found = by_topic(trace([event("kernel", "gemm", 1000 * n, 250, stream=7, device=0) for n in range(20)]))
    assert [each for each in found if each in ("host_wait", "kernel_wait", "other", "unknown")] == ["unknown"]
    assert found["unknown"].cause is TraceCause.NO_LAUNCHES


def test_another_stream_is_named_only_where_there_is_one(trace: Any) -> None:
    late = [launched("gemm", (5 * n, 1), (1000 * n, 250)) for n in range(20)]
    assert by_topic(trace(*late))["other"].cause is TraceCause.OTHER_WAIT
    beside = by_topic(trace(*late, launched("gemm", (200, 1), (240, 5), stream=20)))["other"]
    assert beside.cause is TraceCause.STREAM_WAIT
    assert "one stream's wait for another, or for an event" in beside.text
    wait = event("cuda_sync", "Stream Wait Event", 300, 1, stream=7, device=0, wait_on_stream=7)
    assert by_topic(trace(*late, wait))["other"].cause is TraceCause.STREAM_WAIT


def test_the_time_before_the_first_kernel_of_a_step_counts(trace: Any) -> None:
    """A step of 10 ms, of which the first 7 have no kernel."""
    step = event("user_annotation", "ProfilerStep#3", 0, 10_000)
    busy = [launched("gemm", (7_000 + 300 * n, 5), (7_010 + 300 * n, 290)) for n in range(8)]
    found = by_topic(trace(step, *busy))
    assert round(found["before"].share or 0.0, 2) == 0.70
    assert "before its first kernel" in found["before"].text
    assert round(found["after"].share or 0.0, 2) == 0.06
    assert found["before"].table == "steps"


def test_only_what_could_have_cost_time_is_an_all_clear(trace: Any) -> None:
    found = trace(event("cpu_op", "aten::mm", 0, 10), event("cpu_op", "aten::add", 10, 10))
    assert "costs much" in all_clear({0: found})
    assert "costs much" not in all_clear({0: trace(event("user_annotation", "ProfilerStep#1", 0, 10))})


def test_graphs_that_are_recorded_anew_are_counted_and_named(trace: Any) -> None:
    """Three recordings of 100 µs each, from the beginning of the capture to the graph."""
    steps = [
        (
            function("torch/cuda/graphs.py(88): capture", start, 100, "train.py:8"),
            event("cuda_runtime", "cudaStreamBeginCapture", start, 5, correlation=-1),
            event("cuda_runtime", "cudaGraphInstantiateWithFlags", start + 50, 50, correlation=-1),
            event("cuda_driver", "cuGraphInstantiateWithFlags", start + 60, 20, correlation=-1),
            *launched("gemm", (start + 110, 5), (start + 120, 80)),
        )
        for start in (0, 300, 600)
    ]
    found = by_topic(trace(*steps))["recorded graphs"]
    assert (found.figures["count"], found.table) == (3, "lines")
    assert found.figures["part"] == pytest.approx(300 / 800)
    assert "CUDA graphs are recorded, 3 of them, most in train.py:8; each is" in found.text
    lone = [event("cuda_runtime", "hipGraphInstantiate", 50, 200, correlation=-1), *launched("gemm", (0, 5), (10, 600))]
    assert by_topic(trace(*lone))["recorded graphs"].figures["part"] == pytest.approx(200 / 610)
    assert "recorded graphs" not in by_topic(trace(*launched("gemm", (0, 5), (10, 600))))
