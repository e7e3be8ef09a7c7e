"""`TraceDiff` as notebooks call it: columns, figures and categories of the original."""

import inspect
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from made_traces import a_step, event, launched, write

from workshop.traces.decoding import TraceError
from workshop.traces.hta.frames import short_name
from workshop.traces.hta.trace_diff import DeviceType, LabeledTrace, TraceDiff

KERNEL = "void at::native::reduce_kernel<512, (anonymous namespace)::Sum<float> >(float*)"


@pytest.fixture
def runs(tmp_path: Path) -> list[LabeledTrace]:
    """Two runs: after, a convolution is called twice, multiplication is gone, and a kernel is new."""
    before = [*a_step(1, 0), *a_step(2, 200), *launched("gemm", (30, 1), (250, 7))]
    after = [each for each in before if each["name"] != "aten::mm"]
    after += [event("cpu_op", "aten::conv2d", 51, 2), *launched(KERNEL, (52, 1), (53, 4))]
    after.append(event("gpu_user_annotation", "late", 260, 5, stream=7))
    for name, events in (("before", before), ("after", after)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "trace.json", {"distributedInfo": {"rank": 3}, "traceEvents": events})
    return [
        LabeledTrace("base", trace_dir=tmp_path / "before"),
        LabeledTrace("test", trace_dir=str(tmp_path / "after")),
    ]


def _row(table: Any, name: str) -> list[Any]:
    return table.loc[name].tolist()


def test_runs_and_times_of_the_first_step(runs: list[LabeledTrace]) -> None:
    table = TraceDiff.compare_traces(*runs)
    assert (runs[0].ranks(), runs[0].iterations()) == ([3], [1, 2])
    assert list(table.columns) == [
        *("base_counts", "base_total_duration", "test_counts", "test_total_duration"),
        *("diff_counts", "diff_duration", "counts_change_categories"),
    ]
    assert table.index.name == "name"
    assert _row(table, "aten::conv2d") == [1, 30, 2, 32, 1, 2, "+"]
    assert _row(table, "aten::mm") == [1, 10, 0, 0, -1, -10, "-"]
    assert _row(table, "gemm") == [1, 7, 1, 7, 0, 0, "="], "it belongs to the step that launched it"
    assert list(table.index)[-1] == KERNEL, "what is new comes last"
    assert "late" not in table.index
    assert "ProfilerStep#2" not in table.index


def test_which_steps_and_devices_are_compared(runs: list[LabeledTrace]) -> None:
    gpu = TraceDiff.compare_traces(*runs, device_type=DeviceType.GPU)
    assert list(gpu.index) == ["gemm", KERNEL]
    short = TraceDiff.compare_traces(*runs, device_type=DeviceType.GPU, use_short_name=True)
    assert (list(short.index), short.index.name) == (["gemm", "at::native::reduce_kernel"], "short_name")
    cpu = TraceDiff.compare_traces(
        *runs, control_rank=3, test_rank=[3], control_iteration=[1, 2], test_iteration=2, device_type=DeviceType.CPU
    )
    assert _row(cpu, "aten::conv2d") == [2, 60, 1, 30, -1, -30, "-"]
    assert "gemm" not in cpu.index


def test_operators_are_added_deleted_or_run_more_often(runs: list[LabeledTrace]) -> None:
    found = TraceDiff.ops_diff(*runs)
    assert list(found) == ["added", "deleted", "increased", "decreased", "unchanged"]
    assert (found["added"], found["deleted"], found["decreased"]) == ([KERNEL], ["aten::mm"], [])
    assert found["increased"] == ["aten::conv2d", "cudaLaunchKernel"]
    assert "gemm" in found["unchanged"]


def test_folders_are_labeled(runs: list[LabeledTrace], tmp_path: Path) -> None:
    table = TraceDiff.compare_traces(str(tmp_path / "before"), runs[1].t)
    assert list(table.columns)[:3:2] == ["Control_counts", "Test_counts"]
    assert LabeledTrace(trace_dir=tmp_path / "before").label == "before"
    same = LabeledTrace("base", runs[1].t)
    assert "base_control_test_counts" in TraceDiff.compare_traces(runs[0], same)
    assert same.label == "base"


def test_calls_take_the_arguments_of_the_original() -> None:
    steps = ["control", "test", "control_rank", "test_rank", "control_iteration", "test_iteration", "device_type"]
    assert list(inspect.signature(TraceDiff.compare_traces).parameters) == [*steps, "use_short_name"]
    assert list(inspect.signature(TraceDiff.ops_diff).parameters) == steps
    assert list(inspect.signature(LabeledTrace).parameters) == ["label", "t", "trace_dir"]


def test_charts(runs: list[LabeledTrace], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(plotly.graph_objects.Figure, "show", lambda self: shown.append(self))
    table = TraceDiff.compare_traces(*runs)
    TraceDiff.visualize_counts_diff(table)
    TraceDiff.visualize_duration_diff(table)
    TraceDiff.visualize_duration_diff(table, show_image=False)
    assert [[bar.name for bar in chart.data] for chart in shown] == [
        ["base_counts", "test_counts", "diff_counts"],
        ["base_total_duration", "test_total_duration", "diff_duration"],
    ]


def test_what_is_not_there_is_named(runs: list[LabeledTrace], tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no step in test with the number 7; there are 1, 2"):
        TraceDiff.compare_traces(*runs, test_iteration=7)
    with pytest.raises(TraceError, match="there is no rank in base with the number 0; there are 3"):
        TraceDiff.ops_diff(*runs, control_rank=[3, 0])
    bare = write(tmp_path / "bare.json", {"traceEvents": [event("cpu_op", "aten::add", 0, 5)]})
    with pytest.raises(TraceError, match="there is no step in Test"):
        TraceDiff.compare_traces(runs[0], bare)
    with pytest.raises(TraceError, match="name the folder"):
        LabeledTrace("base")
    with pytest.raises(TraceError, match=r"device_type is a DeviceType, such as DeviceType\.CPU, and not 'CPU'"):
        TraceDiff.compare_traces(*runs, device_type="CPU")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::add", "aten::add"),
        (KERNEL, "at::native::reduce_kernel"),
        ("auto f(int) -> vec<int>", "vec"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short
