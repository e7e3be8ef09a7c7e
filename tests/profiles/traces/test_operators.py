"""Operators by the time that they took themselves."""

from typing import Any

from made_traces import a_step, event, launched

from workshop.profiles.traces.operators import operators


def test_operators_by_their_own_time(trace: Any) -> None:
    found = {row["name"]: row for row in operators(trace(a_step(1, 0), a_step(2, 500)))}
    assert (found["aten::conv2d"]["self_cpu(us)"], found["aten::conv2d"]["total_cpu(us)"]) == (20, 60)
    assert found["aten::mkldnn_convolution"]["self_cpu(us)"] == 40
    assert "ProfilerStep#1" not in found


def test_the_time_of_a_device_goes_to_the_operator(trace: Any) -> None:
    rows = operators(
        trace(
            event("cpu_op", "aten::conv2d", 0, 20),
            event("cpu_op", "aten::cudnn_convolution", 5, 10),
            launched("gemm", (6, 2), (30, 70)),
            event("cpu_op", "aten::add", 20, 10),
        )
    )
    assert (rows[0]["name"], rows[0]["self_device(us)"]) == ("aten::cudnn_convolution", 70)
    assert sum(row["self_device(us)"] for row in rows) == 70
