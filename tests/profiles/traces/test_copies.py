"""Copies between host and device."""

from typing import Any

from made_traces import launched

from workshop.profiles.traces.copies import copies


def test_copies_and_how_fast_they_are(trace: Any) -> None:
    [row] = copies(
        trace(
            launched("gemm", (0, 1), (10, 10)),
            launched("Memcpy HtoD (Pageable -> Device)", (2, 1), (15, 10), stream=9, bytes=20_000),
        )
    )
    assert (row["bytes"], row["bandwidth(GB/s)"], row["under_computation_pctg"]) == (20_000, 2, 50)
