"""The analyses as notebooks call them."""

from pathlib import Path

import pytest
from made_traces import made_up, write

from workshop.profiles.traces import TraceAnalysis


def test_the_analyses_by_their_names(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json.gz", made_up(rank + 4) | {"distributedInfo": {"rank": rank}})
    analyzer = TraceAnalysis(trace_dir=str(tmp_path))
    assert set(analyzer.get_temporal_breakdown(visualize=False)["rank"]) == {0, 1}
    idle, gaps = analyzer.get_idle_time_breakdown(
        ranks=[1], show_idle_interval_stats=True, visualize=False, visualize_pctg=False
    )
    assert set(idle["rank"]) == {1}
    assert gaps is not None
    assert {"count", "mean", "50%"} <= set(gaps.columns)
    assert list(analyzer.get_comm_comp_overlap(visualize=False)["rank"]) == [0, 1]
    launches = analyzer.get_cuda_kernel_launch_stats(visualize=False)
    assert list(launches) == [0, 1]
    assert {"cpu_duration", "gpu_duration", "launch_delay"} <= set(launches[0].columns)
    kinds, kernels = analyzer.get_gpu_kernel_breakdown(visualize=False)
    assert {"kernel_type", "sum", "percentage"} <= set(kinds.columns)
    assert {"name", "sum (us)", "mean (us)"} <= set(kernels.columns)
    assert len(analyzer.get_operators()) > 0
    assert isinstance(analyzer.get_findings(), list)


def test_pictures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import plotly.graph_objects

    shown: list[str] = []
    monkeypatch.setattr(plotly.graph_objects.Figure, "show", lambda self: shown.append(self.layout.title.text))
    analyzer = TraceAnalysis(trace_files={0: str(write(tmp_path / "t.json", made_up(4)))})
    analyzer.get_temporal_breakdown()
    analyzer.get_idle_time_breakdown()
    analyzer.get_comm_comp_overlap()
    analyzer.get_cuda_kernel_launch_stats()
    analyzer.get_gpu_kernel_breakdown()
    assert len(shown) == 5
