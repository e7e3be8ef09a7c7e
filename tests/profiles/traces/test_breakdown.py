"""Where the time of a device goes, and why it is idle."""

from typing import Any

import numpy as np
import pytest
from made_traces import event, launched

from workshop.profiles.traces import breakdown


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
    assert breakdown.device_idle(found) == pytest.approx({"host_wait": 40e-6, "kernel_wait": 5e-6, "other": 100e-6})


def test_communication_under_computation(trace: Any) -> None:
    found = trace(
        launched("gemm", (0, 1), (10, 10)),
        launched("ncclDevKernel_AllReduce", (2, 1), (15, 20), stream=9),
    )
    assert breakdown.comm_comp(found) == {"communication_time(us)": 20, "comp_comm_overlap_pctg": 25}
    kinds = {row["kernel_type"]: row["sum"] for row in breakdown.kernel_types(found)}
    assert kinds == {"COMPUTATION": 5, "COMPUTATION overlapping COMMUNICATION": 5, "COMMUNICATION": 15}


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipMemcpyWithStream"])
def test_every_launch_counts(call: str, trace: Any) -> None:
    found = trace(
        event("cuda_driver" if call.startswith("cu") else "cuda_runtime", call, 0, 5, correlation=1),
        event("kernel", "k", 7.5, 2, stream=7, correlation=1, device=0),
        event("kernel", "nobody launched it", 20, 2, stream=7, correlation=2, device=0),
    )
    launch = breakdown.launches(found)
    assert [column.tolist() for column in launch[1:]] == [[1], [5000], [2000], [2500]]


def test_a_copy_is_no_communication_on_amd(trace: Any) -> None:
    found = trace(launched("Memcpy HtoD (Host -> Device)", (0, 1), (3, 5)))
    assert [row["kernel_type"] for row in breakdown.kernels(found)] == ["MEMORY"]


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
