"""What costs time, in words."""

from typing import Any

import pytest
from made_traces import a_step, launched

from workshop.profiles.traces.findings import findings


def test_findings_are_ordered_by_what_they_cost(trace: Any) -> None:
    kernels = launched("gemm", (21, 1), (22, 5)), launched("gemm", (121, 1), (122, 5))
    found = findings({0: trace(a_step(1, 0), a_step(2, 100), *kernels)})
    assert [finding.share for finding in found] == sorted((finding.share for finding in found), reverse=True)
    assert "host wait" in found[0].text
    assert found[0].share == pytest.approx(95 / 105)
    [data] = [finding for finding in found if "waits for data" in finding.text]
    assert (data.share, data.part) == (0.2, "parts 3 and 5")
    assert "20%" in str(data)
