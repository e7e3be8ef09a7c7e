"""The analyses as notebooks call them."""

import gzip
import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest
from ask_hta import ANSWERS, answers
from made_traces import a_step, a_training, event, launched, made_up, write

from workshop.traces import hta, read
from workshop.traces.decoding import TraceError
from workshop.traces.hta.analysis import TimeSeriesTypes, TraceAnalysis
from workshop.traces.hta.trace_diff import LabeledTrace
from workshop.traces.trace import Trace

ORIGINAL = json.loads(ANSWERS.read_text())
"""What traceinsight 0.6.1 answers, by the seed of the traces."""

close_to = partial(pytest.approx, rel=1e-9, abs=1e-6)
ROUNDED = json.loads(
    Path(__file__).with_name("answers_of_hta.json").read_text(),
    parse_float=lambda text: close_to(float(text)),
    parse_int=lambda text: close_to(int(text)),
)
"""Its figures of single traces, which `rounded` makes to the last digit."""

SIGNATURES = {
    "__init__": "trace_files=None, trace_dir=None, include_last_profiler_step=False",
    "get_comm_comp_overlap": "visualize=True",
    "get_profiler_steps": "",
    "get_potential_stragglers": (
        "profiler_steps=None, num_candidates=2, visualize=False, straggler_identification_impl=late_starts"
    ),
    "get_gpu_kernel_breakdown": (
        "visualize=True, duration_ratio=0.8, num_kernels=10, include_memory_kernels=True, image_renderer=''"
    ),
    "get_gpu_kernels_with_user_annotations": "rank, expand_names=True, shorten_names=True",
    "get_gpu_user_annotation_breakdown": (
        "use_gpu_annotation=True, visualize=True, duration_ratio=0.8, num_kernels=1000, allowlist_patterns=None, "
        "image_renderer=None"
    ),
    "get_temporal_breakdown": "visualize=True",
    "get_frequent_cuda_kernel_sequences": (
        "operator_name, output_dir, min_pattern_len=3, rank=0, top_k=5, visualize=False, compress_other_kernels=True"
    ),
    "get_aten_op_kernels_and_delay": "ranks=None, sort_by=None",
    "get_cuda_kernel_launch_stats": (
        "ranks=None, runtime_cutoff=50, launch_delay_cutoff=100, include_memory_events=True, visualize=True"
    ),
    "generate_trace_with_counters": "time_series=None, ranks=None, output_suffix='_with_counters'",
    "get_queue_length_summary": "ranks=None",
    "get_queue_length_summary_from_time_series": "queue_length_dict",
    "get_queue_length_time_series": "ranks=None",
    "get_time_spent_blocked_on_full_queue": "queue_length_dict, max_queue_length=1024",
    "get_memory_bw_summary": "ranks=None",
    "get_memory_bw_time_series": "ranks=None",
    "get_idle_time_breakdown": (
        "ranks=None, streams=None, visualize=True, visualize_pctg=True, show_idle_interval_stats=False, "
        "consecutive_kernel_delay=30"
    ),
    "get_cupti_counter_data_with_operators": "ranks=None",
}
"""The parameters of the original, except for two defaults: that of the folder, and the function for stragglers."""


def test_the_methods_have_the_parameters_of_the_original() -> None:
    for name, parameters in SIGNATURES.items():
        found = list(inspect.signature(getattr(TraceAnalysis, name)).parameters.values())[1:]
        defaults = ((each.name, getattr(each.default, "__name__", repr(each.default))) for each in found)
        texts = [each if value == "_empty" else f"{each}={value}" for each, value in defaults]
        assert ", ".join(texts) == parameters, name


@pytest.mark.parametrize("seed", ORIGINAL)
def test_the_figures_of_the_original(seed: str, tmp_path: Path) -> None:
    """Columns of ours beside those of the original are no difference, and neither are digits that it rounds off."""
    for rank in range(2):
        write(tmp_path / f"{rank}.json", a_training(int(seed), rank))
    found = answers(TraceAnalysis, {0: "0.json", 1: "1.json"}, tmp_path)
    for name, original in ORIGINAL[seed].items():
        if not isinstance(original[0] if original else 0, dict):
            assert found[name] == original, name
            continue
        ours = [{column: row[column] for column in original[0]} for row in found[name]]
        for mine, its in zip(*(sorted(map(_comparable, rows), key=repr) for rows in (ours, original)), strict=True):
            assert mine == pytest.approx(its, abs=0.051), name


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: float(value) if isinstance(value, int) else value for key, value in row.items()}


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the charts that were shown."""
    shown: list[str] = []
    monkeypatch.setattr(plotly.graph_objects.Figure, "show", lambda self, **_: shown.append(self.layout.title.text))
    return shown


@pytest.fixture
def analysis_of(trace: Callable[..., Trace]) -> Callable[..., TraceAnalysis]:
    """The analysis of a trace of some events, or lists of them: `0.json` in the folder."""

    def of(*events: Any) -> TraceAnalysis:
        return TraceAnalysis([str(trace(*events).path)])

    return of


@pytest.fixture
def analysis(tmp_path: Path) -> TraceAnalysis:
    """Two ranks, with all of their steps."""
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json.gz", made_up(rank + 4) | {"distributedInfo": {"rank": rank}})
    return TraceAnalysis(trace_dir=str(tmp_path), include_last_profiler_step=True)


def test_charts(analysis: TraceAnalysis, charts: list[str], tmp_path: Path) -> None:
    analysis.get_temporal_breakdown()
    analysis.get_idle_time_breakdown(visualize_pctg=False)
    analysis.get_comm_comp_overlap()
    analysis.get_gpu_kernel_breakdown(image_renderer="json")
    analysis.get_cuda_kernel_launch_stats(runtime_cutoff=5, launch_delay_cutoff=5)
    analysis.get_gpu_user_annotation_breakdown(use_gpu_annotation=False)
    analysis.get_frequent_cuda_kernel_sequences("aten::", str(tmp_path), 1, visualize=True)
    assert len(charts) == len({*charts}) == 10
    charts.clear()
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_potential_stragglers()
    assert charts == []


def test_frames_of_our_own(analysis: TraceAnalysis, tmp_path: Path) -> None:
    for table in (analysis.get_operators(), analysis.get_steps(), analysis.get_memory_copies()):
        assert len(table) > 0
    assert isinstance(analysis.get_findings(), list)
    idle, gaps = analysis.get_idle_time_breakdown([1], streams=[7], visualize=False, show_idle_interval_stats=True)
    assert ({*idle["rank"]}, {*idle["stream"]}) == ({1}, {7})
    assert gaps is not None
    assert list(gaps.columns)[:4] == ["rank", "stream", "count", "mean"]
    by_rank = TraceAnalysis(trace_files={3: "rank0.json.gz"}, trace_dir=tmp_path)
    assert list(by_rank.get_temporal_breakdown(visualize=False)["rank"]) == [3]
    assert list(by_rank.get_queue_length_time_series()) == [3], "the only rank is the default"
    with pytest.raises(TraceError, match="no trace of rank 0, but of 3"):
        by_rank.get_memory_bw_summary([0])


def test_the_slowest_rank_and_the_nodes_of_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, work in enumerate((100, 140)):
        steps = [a_step(number, 200 * number, work, 150 - work) for number in range(3)]
        write(tmp_path / f"rank{rank}.json", {"traceEvents": [event for step in steps for event in step]})
    analysis = TraceAnalysis(trace_dir=tmp_path)
    assert analysis.get_stragglers()[["rank", "behind(us)"]].to_numpy().tolist() == [[1, 40], [0, 0]]
    graph, found = analysis.critical_path_analysis(0, "ProfilerStep", 0)
    graph.show_critical_path()
    assert found
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0] for line in printed] == [f"CPNode(idx={node}" for node in graph.critical_path_nodes]


def test_what_is_not_in_a_trace_is_none_or_empty(analysis_of: Any, tmp_path: Path) -> None:
    analysis = analysis_of(event("cpu_op", "aten::add", 0, 9))
    assert analysis.get_queue_length_summary() is None
    assert analysis.get_memory_bw_summary() is None
    assert analysis.get_gpu_user_annotation_breakdown() is None
    assert analysis.get_gpu_kernels_with_user_annotations(0) is None
    assert analysis.get_cupti_counter_data_with_operators() == []
    assert (analysis.get_profiler_steps(), analysis.get_potential_stragglers()) == ([], [])
    blocked = analysis.get_time_spent_blocked_on_full_queue({})
    assert blocked is not None
    assert len(blocked) == 0
    tables = (*analysis.get_gpu_kernel_breakdown(False), analysis.get_aten_op_kernels_and_delay()[0])
    assert [len(table) for table in tables] == [0, 0, 0]
    assert len(analysis.get_frequent_cuda_kernel_sequences("aten::add", str(tmp_path))) == 0
    with pytest.raises(TraceError, match="the traces have the steps"):
        analysis.get_potential_stragglers([7])


def test_kernels_and_their_annotations(analysis_of: Any) -> None:
    kernels = (launched("void at::gemm<float, 4>(int)", (ts, 2), (ts + 100, 10)) for ts in (10, 50))
    analysis = analysis_of(*kernels, event("gpu_user_annotation", "forward", 105, 20, stream=7))
    found = analysis.get_gpu_kernels_with_user_annotations(0)
    assert list(found["s_name"]) == ["at::gemm"] * 2
    assert list(found["s_user_annotation"]) == ["forward", ""]
    assert list(found["ts"]) == [100, 140]


def test_small_annotations_are_others(analysis_of: Any) -> None:
    analysis = analysis_of(event("user_annotation", f"[{n}]", 100 * n, 2**n) for n in (6, 5, 4, 3, 2))
    breakdown = analysis.get_gpu_user_annotation_breakdown
    found = breakdown(False, False, num_kernels=2, duration_ratio=1, allowlist_patterns=["[2]", r"^.3\]"])
    assert dict(zip(found["name"], found["sum (us)"], strict=True)) == {
        **{f"[{n}]": 2**n for n in (2, 3, 5, 6)},
        "others": 16,
    }


def test_traces_with_counters(analysis: TraceAnalysis, tmp_path: Path) -> None:
    analysis.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH, [1], "_queues")
    [path] = tmp_path.glob("*_queues*")
    assert path.name == "rank1_queues.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    counters = [each for each in events if each["ph"] == "C"]
    frame = analysis.get_queue_length_time_series([1])[1]
    assert [(each["id"], each["args"]["Queue Length"]) for each in counters] == [
        *zip(frame["stream"], frame["queue_length"], strict=True)
    ]
    times = {each["ts"] for each in events if "dur" in each}
    assert {each["ts"] for each in counters} <= times
    assert len(read(path).events) == len(read(tmp_path / "rank1.json.gz").events)
    analysis.generate_trace_with_counters()
    assert (tmp_path / "rank0_with_counters.json.gz").exists()


def test_frequent_sequences_are_marked(analysis_of: Any, tmp_path: Path) -> None:
    parts = [[event("cpu_op", "aten::add", ts, 20), *launched("add", (ts + 5, 2), (ts + 50, 9))] for ts in (0, 100)]
    others = [event("cpu_op", "aten::mul", 200, 9), event("user_annotation", "forward", 0, 300)]
    analysis = analysis_of(*parts, others)
    table = analysis.get_frequent_cuda_kernel_sequences("add", str(tmp_path), 1)
    assert table.values.tolist() == [["aten::add|add", 2, 18, 40]]
    events = json.loads((tmp_path / "overlaid_0.json").read_text())["traceEvents"]
    patterns = [each["args"].get("Patterns") for each in events]
    assert patterns == [{"aten::add|add": 2}] * 6 + [None]
    analysis.get_frequent_cuda_kernel_sequences("add", str(tmp_path), 1, compress_other_kernels=False)
    assert len(json.loads((tmp_path / "overlaid_0.json").read_text())["traceEvents"]) == 8
    with pytest.raises(TraceError, match="a folder that is there"):
        analysis.get_frequent_cuda_kernel_sequences("add", str(tmp_path / "nowhere"))


def test_wrong_files_are_said_in_a_line(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json", made_up(rank))
    with pytest.raises(TraceError, match="name a folder"):
        TraceAnalysis(trace_files={})
    with pytest.raises(TraceError, match="has 2 traces; name one for each rank"):
        TraceAnalysis(trace_files={0: "."}, trace_dir=tmp_path)


@pytest.mark.filterwarnings("ignore:1 event of")
@pytest.mark.parametrize("files", [["rank1.json"], {5: "rank1.json"}, None])
def test_what_is_damaged_is_told_in_a_warning(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "traces").mkdir()
    write(tmp_path / "traces" / "rank1.json", json.dumps(made_up(1))[:-3000])
    with pytest.warns(UserWarning, match="rank1.json ends too early"):
        assert len(TraceAnalysis(trace_files=files, trace_dir="~/traces").traces) == 1
    with pytest.warns(UserWarning, match="rank1.json ends too early"):
        LabeledTrace(trace_dir="~/traces")


def test_the_number_of_a_rank_stands_for_the_first_file_of_it(tmp_path: Path) -> None:
    for name in ("rank3.a.json", "rank3.b.json"):
        write(tmp_path / name, made_up(1) | {"distributedInfo": {"rank": 3}})
    analysis = TraceAnalysis(trace_dir=tmp_path)
    assert [*analysis.get_cuda_kernel_launch_stats(ranks=[3])] == [3]
    with pytest.raises(TraceError, match=r"no trace of rank 0, but of '3 \(rank3.a\)', '3 \(rank3.b\)'"):
        analysis.get_gpu_kernels_with_user_annotations(0)
    with pytest.warns(UserWarning, match="rank3.a.json is left out: .*rank3.b.json is of rank 3, too"):
        assert LabeledTrace(trace_dir=tmp_path).ranks() == [3]


def test_counters_of_a_trace_without_a_queue(analysis_of: Any, tmp_path: Path) -> None:
    analysis_of(event("cpu_op", "aten::add", 0, 5)).generate_trace_with_counters()
    assert len(read(tmp_path / "0_with_counters.json").events) == 1


@pytest.mark.parametrize("seed", ROUNDED)
def test_the_rounded_figures_of_the_original(seed: str, tmp_path: Path) -> None:
    found = hta.analyses({0: read(write(tmp_path / "t.json.gz", made_up(int(seed))))})
    for name, answer in ROUNDED[seed].items():
        assert json.loads(json.dumps(found[name])) == answer, name
