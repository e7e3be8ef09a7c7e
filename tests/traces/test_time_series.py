"""Queues of launches and bandwidths of copies, over time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import event, launched

from workshop.traces import time_series
from workshop.traces.intervals import pairs


def test_a_launch_makes_a_queue_longer_and_a_begin_shorter(trace: Any) -> None:
    found = time_series.queue_changes(
        trace(
            launched("gemm", (0, 1), (10, 5)),
            launched("gemm", (2, 1), (15, 5)),
            launched("gemm", (15, 1), (30, 5)),
            launched("ncclDevKernel_AllReduce", (3, 1), (4, 5), stream=9),
            event("kernel", "nobody launched it", 50, 5, stream=7, correlation=10**6, device=0),
        )
    )
    rows = [*zip(*(column.tolist() for column in (found.stream, found.ts, found.length)), strict=True)]
    lengths = [(0, 1), (2, 2), (10, 1), (15, 2), (15, 1), (30, 0)]
    assert rows == [(7, ts * 1000, length) for ts, length in lengths] + [(9, 3000, 1), (9, 4000, 0)]


def test_a_graph_is_one_launch(trace: Any) -> None:
    kernels = [event("kernel", "k", 10 * n, 5, stream=7, correlation=1, device=0) for n in (3, 1, 2)]
    found = time_series.queue_changes(trace(event("cuda_runtime", "cudaGraphLaunch", 0, 5, correlation=1), kernels))
    assert (found.ts.tolist(), found.length.tolist()) == ([0, 10_000], [1, 0])


def test_does_the_queue_run_dry(trace: Any) -> None:
    found = trace(
        launched("gemm", (0, 1), (10, 10)),  # queued for 10 µs, then runs with nothing behind it
        launched("gemm", (50, 1), (60, 40)),  # 30 µs are starved
        launched("gemm", (61, 1), (100, 10)),
        launched("copy", (15, 1), (40, 5), stream=8),  # but a copy was queued for 25 of them
    )
    everything, compute, copy = time_series.queue_rows(found, full=2)
    assert [row["stream"] for row in (everything, compute, copy)] == [time_series.ALL_STREAMS, 7, 8]
    whole = 110
    assert compute["mean_length"] == pytest.approx((10 + 10 + 39) / whole)
    assert compute["empty_time_pctg"] == pytest.approx(100 * (whole - 59) / whole)
    assert compute["starved_time_pctg"] == pytest.approx(100 * (20 + 5) / whole)
    assert compute["longest_starved(us)"] == 20
    assert everything["starved_time_pctg"] == pytest.approx(100 * 5 / whole)
    assert (compute["max_length"], everything["max_length"], compute["full_time_pctg"]) == (1, 1, 0)
    [row] = time_series.queue_rows(trace(*(launched("k", (n, 1), (100 + 10 * n, 10)) for n in range(3))), full=2)
    assert row["full_time_pctg"] == pytest.approx(100 * 109 / 130)
    assert time_series.queue_rows(trace(event("cpu_op", "aten::add", 0, 1))) == []


def test_copies_of_one_kind_add_up(trace: Any) -> None:
    found = trace(
        launched("Memcpy HtoD (Pinned -> Device)", (0, 1), (10, 10), **{"memory bandwidth (GB/s)": 5.1}),
        launched("Memcpy HtoD (Pageable -> Device)", (1, 1), (15, 10), stream=8, bytes=40_000),
        launched("Memcpy HtoD (Pinned -> Device)", (1, 1), (25, 10), bytes=10_000),
        launched("Memcpy DtoH (Device -> Pinned)", (2, 1), (12, 0), bytes=3_000),
    )
    changes = time_series.bandwidth_changes(found)
    rows = zip(changes.kind.tolist(), changes.ts.tolist(), changes.bandwidth.tolist(), strict=True)
    assert [(kind[-4:], ts / 1000, round(speed, 3)) for kind, ts, speed in rows] == [
        ("DtoH", 12, 3),
        ("DtoH", 13, 0),
        ("HtoD", 10, 5.1),
        ("HtoD", 15, 9.1),
        ("HtoD", 20, 4),
        ("HtoD", 25, 0),
        ("HtoD", 25, 1),
        ("HtoD", 35, 0),
    ]
    copies = {row["kind"]: row for row in time_series.bandwidth_rows(found)}
    assert copies["Memcpy HtoD"]["time(us)"] == 25
    assert copies["Memcpy HtoD"]["max(GB/s)"] == pytest.approx(9.1)
    assert copies["Memcpy HtoD"]["mean(GB/s)"] == pytest.approx((5.1 * 5 + 9.1 * 5 + 4 * 5 + 1 * 10) / 25)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=9))
def test_pairs_of_rows(ranges: list[tuple[int, int]]) -> None:
    columns = np.array(ranges, np.int64).reshape(-1, 2)
    one, other = pairs(columns[:, 0], columns[:, 1])
    expected = [(row, each) for row, (first, behind) in enumerate(ranges) for each in range(first, behind)]
    assert [*zip(one.tolist(), other.tolist(), strict=True)] == expected
