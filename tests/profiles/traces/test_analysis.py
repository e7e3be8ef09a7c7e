"""The analyses as notebooks call them."""

from pathlib import Path

import plotly.graph_objects
import pytest
from made_traces import made_up, write

from workshop.profiles.traces import TraceAnalysis


def test_the_analyses_by_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(plotly.graph_objects.Figure, "show", lambda self: shown.append(self.layout.title.text))
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json.gz", made_up(rank + 4) | {"distributedInfo": {"rank": rank}})
    analyzer = TraceAnalysis(trace_dir=str(tmp_path))
    assert set(analyzer.get_temporal_breakdown()["rank"]) == {0, 1}
    idle, gaps = analyzer.get_idle_time_breakdown(ranks=[1], show_idle_interval_stats=True)
    assert set(idle["rank"]) == {1}
    assert gaps is not None
    assert {"count", "mean", "50%"} <= set(gaps.columns)
    assert list(analyzer.get_comm_comp_overlap()["rank"]) == [0, 1]
    launches = analyzer.get_cuda_kernel_launch_stats()
    assert list(launches) == [0, 1]
    assert {"cpu_duration", "gpu_duration", "launch_delay"} <= set(launches[0].columns)
    kinds, kernels = analyzer.get_gpu_kernel_breakdown()
    assert {"kernel_type", "sum", "percentage"} <= set(kinds.columns)
    assert {"name", "sum (us)", "mean (us)"} <= set(kernels.columns)
    assert len(shown) == 6, "each of them shows a chart"
    analyzer.get_idle_time_breakdown(visualize_pctg=False)
    analyzer.get_comm_comp_overlap(visualize=False)
    assert len(shown) == 7

    for table in (analyzer.get_operators(), analyzer.get_steps(), analyzer.get_memory_copies()):
        assert len(table) > 0
    assert isinstance(analyzer.get_findings(), list)
    by_rank = TraceAnalysis(trace_files={3: "rank0.json.gz"}, trace_dir=tmp_path)
    assert list(by_rank.get_temporal_breakdown(visualize=False)["rank"]) == [3]
