"""Where the time of a device, of its copies and of operators goes, and why a device is idle."""

from typing import Any

import numpy as np
import pytest
from made_traces import a_step, event, launched

from workshop.traces import breakdown
from workshop.traces.steps import traced_steps


def test_where_the_time_of_a_device_goes(trace: Any) -> None:
    found = trace(
        launched("gemm", (0, 1), (10, 10.5)),
        launched("gemm", (2, 1), (15, 10), stream=8),
        launched("ncclDevKernel_AllReduce", (3, 1), (30, 4), stream=9),
        launched("Memcpy HtoD (Pageable -> Device)", (4, 1), (40.25, 10)),
    )
    [row] = breakdown.temporal(found)
    assert row == {
        "device": 0,
        "idle_time(us)": 11.25,
        "compute_time(us)": 15.0,
        "non_compute_time(us)": 14.0,
        "kernel_time(us)": 40.25,
        "idle_time_pctg": pytest.approx(27.95, abs=0.01),
        "compute_time_pctg": pytest.approx(37.27, abs=0.01),
        "non_compute_time_pctg": pytest.approx(34.78, abs=0.01),
        "before(us)": 10.0,
        "after(us)": 0.0,
    }


def test_why_a_stream_is_idle(trace: Any) -> None:
    found = trace(
        launched("gemm", (0, 1), (10, 10)),
        launched("gemm", (50, 1), (60, 10)),  # launched when the one before had long ended
        launched("gemm", (51, 1), (75, 10)),  # launched in time, 5 µs after the one before
        launched("gemm", (52, 1), (185, 10)),  # launched in time, and yet late
    )
    times = {row["idle_category"]: row["idle_time"] for row in breakdown.idle(found)}
    assert times == {"host_wait": 40, "kernel_wait": 5, "other": 100}
    assert breakdown.device_idle(found) == pytest.approx(
        {"host_wait": 40e-6, "kernel_wait": 5e-6, "other": 100e-6, "unknown": 0}
    )


def test_of_a_kernel_without_its_launch_the_cause_is_not_known(trace: Any) -> None:
    """As in a trace that was recorded without the CPU; to HolisticTraceAnalysis, this is another cause, too."""
    kernels = [event("kernel", "gemm", ts, 10, stream=7, device=0, correlation=ts) for ts in (0, 15, 100)]
    found = trace(kernels)
    [row] = [row for row in breakdown.idle(found) if row["idle_category"] == "unknown"]
    assert row["idle_time"] == 75
    as_hta = {row["idle_category"]: row["idle_time"] for row in breakdown.idle(found, as_hta=True)}
    assert as_hta == {"host_wait": 0, "kernel_wait": 5, "other": 75}


@pytest.mark.parametrize("is_marked", [True, False])
def test_the_time_around_the_kernels_is_that_of_the_steps_or_of_the_thread(is_marked: bool, trace: Any) -> None:
    step = [event("user_annotation", "ProfilerStep#3", 0, 200)]
    ops = [event("cpu_op", "aten::mm", 20, 170)]
    kernels = [*launched("gemm", (100, 5), (120, 10)), *launched("gemm", (126, 5), (135, 10), stream=20)]
    found = trace(step * is_marked, ops, kernels)
    [time] = breakdown.device_times(found)
    assert time == ((120_000, 25_000, 55_000) if is_marked else (100_000, 25_000, 45_000))
    [row] = breakdown.temporal(found)
    assert (row["kernel_time(us)"], row["before(us)"], row["after(us)"]) == (25, time.before / 1000, time.after / 1000)
    [alone] = breakdown.device_times(trace([each for each in kernels if each["cat"] == "kernel"]))
    assert (alone.before, alone.after) == (0, 0)


def test_communication_and_copies_under_computation(trace: Any) -> None:
    found = trace(
        launched("gemm", (0, 1), (10, 10)),
        launched("ncclDevKernel_AllReduce", (2, 1), (15, 20), stream=9),
        launched("Memcpy HtoD (Host -> Device)", (3, 1), (40, 5), bytes=20_000),
        launched("gemm", (4, 1), (42, 1), stream=9),
    )
    assert breakdown.comm_comp(found) == {"communication_time(us)": 20, "comp_comm_overlap_pctg": 25}
    assert {row["kernel_type"]: row["sum"] for row in breakdown.kernel_types(found)} == {
        "COMMUNICATION": 15,
        "COMPUTATION": 5,
        "COMPUTATION overlapping COMMUNICATION": 5,
        "MEMORY": 4,
        "COMPUTATION overlapping MEMORY": 1,
    }
    [row] = breakdown.copies(found)
    assert (row["bytes"], row["bandwidth(GB/s)"], row["under_computation_pctg"]) == (20_000, 4, 20)


def test_what_one_device_computes_hides_nothing_of_another(trace: Any) -> None:
    found = trace(
        a_step(0, 0),
        launched("gemm", (0, 1), (10, 80), device=1),
        launched("ncclDevKernel_AllReduce", (2, 1), (15, 20)),
        launched("ncclDevKernel_AllReduce", (3, 1), (85, 10), device=1),
        launched("Memcpy HtoD (Host -> Device)", (3, 1), (40, 5)),
    )
    assert breakdown.comm_comp(found) == {"communication_time(us)": 30, "comp_comm_overlap_pctg": pytest.approx(50 / 3)}
    assert breakdown.copies(found)[0]["under_computation_pctg"] == 0
    assert {row["kernel_type"]: row["sum"] for row in breakdown.kernel_types(found)} == {
        "COMPUTATION": 75,
        "COMMUNICATION": 25,
        "COMPUTATION overlapping COMMUNICATION": 5,
        "MEMORY": 5,
    }
    assert traced_steps(found)[0].communication == 25_000


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipMemcpyWithStream"])
def test_every_launch_counts(call: str, trace: Any) -> None:
    found = trace(
        event("cuda_driver" if call.startswith("cu") else "cuda_runtime", call, 0, 5, correlation=1),
        event("kernel", "k", 7.5, 2, stream=7, correlation=1, device=0),
        event("kernel", "nobody launched it", 20, 2, stream=7, correlation=2, device=0),
    )
    assert [*breakdown.launch_summary(found).values()] == [1, 5.0, 2.0, 2.5, 2.5, 100.0]


def test_statistics_of_kernels(trace: Any) -> None:
    found = trace(*(launched("gemm", (n * 10, 1), (n * 10 + 2, n)) for n in (1, 2, 6)))
    [row] = breakdown.kernels(found)
    assert (row["count"], row["sum (us)"], row["mean (us)"], row["min (us)"], row["max (us)"]) == (3, 9, 3, 1, 6)
    assert row["stddev"] == pytest.approx(np.std([1, 2, 6], ddof=1))


def test_a_cpu_has_a_table_too(trace: Any) -> None:
    found = trace(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 0, 60),
        event("cpu_op", "aten::stack", 50, 10),
        event("cpu_op", "aten::conv2d", 60, 20),
    )
    [row] = breakdown.temporal(found)
    assert (row["device"], row["idle_time_pctg"], row["compute_time_pctg"]) == ("cpu", 70, 30)
    waits = {row["idle_category"]: row["idle_time"] for row in breakdown.idle(found)}
    assert waits == {"data_wait": 50, "other": 20}


def test_the_self_time_of_operators(trace: Any) -> None:
    found = {row["name"]: row for row in breakdown.operators(trace(a_step(1, 0), a_step(2, 500)))}
    assert (found["aten::conv2d"]["self_cpu(us)"], found["aten::conv2d"]["total_cpu(us)"]) == (20, 60)
    assert found["aten::mkldnn_convolution"]["self_cpu(us)"] == 40
    assert "ProfilerStep#1" not in found


def test_the_time_of_a_device_goes_to_the_operator(trace: Any) -> None:
    rows = breakdown.operators(
        trace(
            event("cpu_op", "aten::conv2d", 0, 20),
            event("cpu_op", "aten::cudnn_convolution", 5, 10),
            launched("gemm", (6, 2), (30, 70)),
            event("cpu_op", "aten::add", 20, 10),
        )
    )
    assert (rows[0]["name"], rows[0]["self_device(us)"]) == ("aten::cudnn_convolution", 70)
    assert sum(row["self_device(us)"] for row in rows) == 70
