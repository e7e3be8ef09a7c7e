"""What is said of an idle device: why, where that is known, and of the time around its kernels."""

from typing import Any

from made_traces import event, launched

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
