"""Traces: what is read of whole and of damaged ones, and what the analyses make of it."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_traces import made_up

from workshop.profiles.traces import Trace, TraceAnalysis, TraceError, breakdown, hta, load, read
from workshop.profiles.traces.copies import copies
from workshop.profiles.traces.findings import findings
from workshop.profiles.traces.intervals import Spans, overlap, union, without
from workshop.profiles.traces.operators import operators
from workshop.profiles.traces.steps import PHASES, steps, stragglers
from workshop.profiles.traces.steps import table as step_table

ANSWERS = json.loads(Path(__file__).with_name("answers_of_hta.json").read_text())
"""What traceinsight 0.6.1 answers, by the seed of the trace."""


def write(path: Path, trace: Any) -> Path:
    text = trace if isinstance(trace, bytes) else (trace if isinstance(trace, str) else json.dumps(trace)).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    pid, tid = (0, args["stream"]) if "stream" in args else (7, 7)
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launched(name: str, call: tuple[float, float], run: tuple[float, float], stream: int = 7, **args: Any) -> list[Any]:
    """A call and what it launched: when, and for how long."""
    number = next(NUMBERS)
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    return [
        event("cuda_runtime", "cudaLaunchKernel", *call, correlation=number),
        event(cat, name, *run, stream=stream, correlation=number, device=0, **args),
    ]


NUMBERS = iter(range(1, 10**9))
ODD_NAME = 'call "of" C:\\data\\x\ny'
WORDS = [b"", b'"', b"\\", b"}", b"]", b"{", b",", b"\xff\x00", b"9" * 30]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)))


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    def of(*events: Any, **about: Any) -> Trace:
        flat = [each for part in events for each in (part if isinstance(part, list) else [part])]
        return read(write(tmp_path / f"{next(NUMBERS)}.json", {"traceEvents": flat} | about))

    return of


class TestReading:
    def test_the_events_that_last(self, tmp_path: Path) -> None:
        found = read(write(tmp_path / "t.json.gz", made_up(3)))
        wanted = [
            (place, each)
            for place, each in enumerate(made_up(3)["traceEvents"])
            if "dur" in each and each["cat"] != "Trace"
        ]
        assert found.events.index.tolist() == [place for place, _ in wanted]
        assert [found.names[name] for name in found.events.name] == [each["name"] for _, each in wanted]
        assert found.events.ts.tolist() == [round(each["ts"] * 1000) for _, each in wanted]
        assert found.events.dur.tolist() == [round(each["dur"] * 1000) for _, each in wanted]
        assert found.damage == ()
        assert found.rank == made_up(3)["distributedInfo"]["rank"]

    def test_blocks_make_no_difference(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "t.json", json.dumps(made_up(5), indent=1))
        whole = read(path)
        for size in (97, 1000, 5000):
            monkeypatch.setattr("workshop.profiles.traces.decoding.BLOCK_BYTES", size)
            in_pieces = read(path)
            assert in_pieces.damage == ()
            assert all(
                np.array_equal(getattr(whole.events, name), getattr(in_pieces.events, name))
                for name in type(whole.events).__dataclass_fields__
            )

    def test_nanoseconds_are_exact_however_long_ago(self, trace: Any, tmp_path: Path) -> None:
        path = tmp_path / "t.json"
        times = ["1694039959117385.123", "1694039959117385.124", "1694039959117386.9"]
        events = [f'{{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": {time}, "dur": 0.001}}' for time in times]
        found = read(write(path, f'{{"traceEvents": [{", ".join(events)}]}}'))
        assert found.events.ts.tolist() == [1694039959117385123, 1694039959117385124, 1694039959117386900]
        assert found.events.dur.tolist() == [1, 1, 1]

    def test_values_of_unexpected_types(self, trace: Any) -> None:
        found = trace(
            event("kernel", "odd", 1, 2, stream="7", correlation=2**70, device=None, bytes="many"),
            event("kernel", "even", "5", 2, stream=True, correlation=1),
            event("kernel", "later", 1e300, 2, stream=7, correlation=1),
            {"ph": "X", "cat": "cpu_op", "name": 5, "ts": 3, "dur": 1, "pid": "a", "tid": None, "args": []},
        )
        assert [found.names[name] for name in found.events.name] == ["odd", "even", "5"]
        assert found.events.stream[0] == 7
        assert found.events.correlation[0] == -1
        assert found.damage == (f"1 event of {found.path} could not be read",)

    def test_names_as_some_versions_write_them(self, tmp_path: Path) -> None:
        text = json.dumps(
            {"traceEvents": [event("cpu_op", f"name{n}", n, 1) for n in range(9)], "distributedInfo": {"rank": 3}}
        )
        text = text.replace("name4", ODD_NAME).replace("name6", "\x01")
        found = read(write(tmp_path / "t.json", text))
        assert len(found.events) == 9
        assert {ODD_NAME, "\x01"} <= set(found.names)
        assert (found.damage, found.rank) == ((), 3)

    @pytest.mark.parametrize("suffix", [".json", ".json.gz"])
    def test_a_file_that_was_cut_off(self, suffix: str, tmp_path: Path) -> None:
        whole = write(tmp_path / f"whole{suffix}", json.dumps(made_up(8), indent=1))
        cut = write(tmp_path / "cut.json", whole.read_bytes()[: -len(whole.read_bytes()) // 3])
        found = read(cut)
        assert 0 < len(found.events) < len(read(whole).events)
        assert len(found.damage) == 2 if suffix == ".json" else found.damage
        assert found.damage[0].startswith(f"{cut} ends too early")

    def test_one_bad_event_costs_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("workshop.profiles.traces.decoding.BLOCK_BYTES", 2000)
        events = [event("cpu_op", f"name{n}", n, 1) for n in range(200)]
        text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": 3}})
        found = read(write(tmp_path / "t.json", text.replace('"ts": 77', '"ts": seventyseven')))
        assert len(found.events) == 199
        assert found.damage == (f"1 event of {found.path} could not be read",)
        assert found.rank == 3

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "is empty"),
            (b"Dear diary", "is no trace of torch.profiler: there are no traceEvents in it"),
            (b'{"a": 1}', "is no trace of torch.profiler"),
            (gzip.compress(b""), "is empty"),
            (b"\x1f\x8b", "is empty"),
            (b'{"traceEvents": [{{{', "is damaged: no event of it can be read"),
        ],
    )
    def test_what_is_no_trace(self, content: bytes, says: str, tmp_path: Path) -> None:
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(TraceError, match=says):
            read(tmp_path / "t.json")

    def test_events_alone_are_a_trace(self, tmp_path: Path) -> None:
        assert len(read(write(tmp_path / "t.json", [event("cpu_op", "aten::add", 1, 2)])).events) == 1

    def test_no_events_are_a_trace(self, trace: Any) -> None:
        found = trace()
        assert len(found.events) == 0
        assert breakdown.temporal(found)[0]["kernel_time(us)"] == 0
        assert (breakdown.idle(found), operators(found), step_table(found), findings({0: found})) == ([], [], [], [])

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(seed=st.integers(0, 50), data=st.data())
    def test_damage_is_survived(self, seed: int, data: st.DataObject, tmp_path: Path) -> None:
        """Bytes that are lost, doubled, or others: a trace comes out, with what was read, or the one error."""
        content = bytearray(json.dumps(made_up(seed), indent=random.Random(seed).choice([None, 1])).encode())
        if data.draw(st.booleans()):
            content = bytearray(gzip.compress(bytes(content), 1))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, max(len(content) - 1, 0)))
            end = start + data.draw(st.sampled_from([0, 1, 2, 30, 1000]))
            content[start:end] = data.draw(
                st.sampled_from([b"", b'"', b"\\", b"}", b"]", b"{", b",", b"\xff\x00", b"9" * 30])
            )
        path = write(tmp_path / "t.json", bytes(content))
        try:
            found = read(path)
        except TraceError:
            return
        breakdown.temporal(found), breakdown.idle(found), breakdown.launches(found), breakdown.kernels(found)
        operators(found), step_table(found), copies(found), findings({0: found, 1: found}), hta.analyses({0: found})

    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        events=st.lists(
            st.dictionaries(
                st.sampled_from(["name", "cat", "ts", "dur", "pid", "tid", "args", "ph"]),
                st.recursive(
                    st.none()
                    | st.booleans()
                    | st.integers()
                    | st.floats(allow_nan=False, allow_infinity=False)
                    | st.text(),
                    lambda inner: (
                        st.lists(inner, max_size=3)
                        | st.dictionaries(st.sampled_from(["stream", "correlation", "device", "bytes"]), inner)
                    ),
                    max_leaves=5,
                ),
            ),
            max_size=5,
        )
    )
    def test_any_json_is_survived(self, events: list[Any], tmp_path: Path) -> None:
        try:
            found = read(write(tmp_path / "t.json", {"traceEvents": events, "distributedInfo": events, "x": events}))
        except TraceError:
            return
        breakdown.temporal(found), breakdown.idle(found), operators(found), step_table(found), hta.analyses({0: found})


class TestRanks:
    def test_a_folder_with_other_files_in_it(self, tmp_path: Path) -> None:
        write(tmp_path / "b.json.gz", made_up(1) | {"distributedInfo": {"rank": 1}})
        write(tmp_path / "a.json", made_up(2) | {"distributedInfo": {"rank": 0}})
        write(tmp_path / "notes.json", "{}")
        (tmp_path / "readme.txt").write_text("no trace")
        found = load([tmp_path])
        assert list(found) == [0, 1]
        assert len(found.notes) == 1
        assert "passed over" in found.notes[0]
        assert "notes.json" in found.notes[0]
        with pytest.raises(TraceError, match="no traceEvents"):
            load([tmp_path / "a.json", tmp_path / "notes.json"])

    def test_no_rank_is_lost_to_another(self, tmp_path: Path) -> None:
        for name in ("x.json", "y.json", "rank7.json"):
            write(tmp_path / name, made_up(1) | {"distributedInfo": None})
        for name in ("p.json", "q.json"):
            write(tmp_path / name, made_up(1) | {"distributedInfo": {"rank": 2}})
        assert list(load([tmp_path])) == [0, 1, "2 (p)", "2 (q)", 7]

    def test_in_processes_of_their_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for rank in range(3):
            write(tmp_path / f"rank{rank}.json", made_up(rank) | {"distributedInfo": None})
        alone = load([tmp_path])
        monkeypatch.setattr("workshop.profiles.traces.ranks.WORTH_A_PROCESS", 0)
        read_bytes: list[int] = []
        together = load([tmp_path], read_bytes.append)
        assert sum(read_bytes) == sum(path.stat().st_size for path in tmp_path.iterdir())
        assert [trace.events.ts.tolist() for trace in together.values()] == [
            trace.events.ts.tolist() for trace in alone.values()
        ]


@pytest.mark.parametrize("seed", ANSWERS)
def test_the_numbers_of_holistic_trace_analysis(seed: str, tmp_path: Path) -> None:
    found = hta.analyses({0: read(write(tmp_path / "t.json.gz", made_up(int(seed))))})
    for name, answer in ANSWERS[seed].items():
        assert same(json.loads(json.dumps(found[name])), answer), name


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of sums."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-6)
    return bool(one == other)


class TestBreakdown:
    def test_where_the_time_of_a_device_goes(self, trace: Any) -> None:
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

    def test_why_a_stream_is_idle(self, trace: Any) -> None:
        found = trace(
            launched("gemm", (0, 1), (10, 10)),
            launched("gemm", (50, 1), (60, 10)),  # launched when the one before had long ended
            launched("gemm", (51, 1), (75, 10)),  # launched in time, 5 µs after the one before
            launched("gemm", (52, 1), (185, 10)),  # launched in time, and yet late
        )
        times = {row["idle_category"]: row["idle_time"] for row in breakdown.idle(found)}
        assert times == {"host_wait": 40, "kernel_wait": 5, "other": 100}
        assert breakdown.device_idle(found) == pytest.approx({"host_wait": 40e-6, "kernel_wait": 5e-6, "other": 100e-6})

    def test_communication_under_computation(self, trace: Any) -> None:
        found = trace(
            launched("gemm", (0, 1), (10, 10)),
            launched("ncclDevKernel_AllReduce", (2, 1), (15, 20), stream=9),
        )
        assert breakdown.comm_comp(found) == {"communication_time(us)": 20, "comp_comm_overlap_pctg": 25}
        kinds = {row["kernel_type"]: row["sum"] for row in breakdown.kernel_types(found)}
        assert kinds == {"COMPUTATION": 5, "COMPUTATION overlapping COMMUNICATION": 5, "COMMUNICATION": 15}

    @pytest.mark.parametrize("call", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "hipMemcpyWithStream"])
    def test_every_launch_counts(self, call: str, trace: Any) -> None:
        found = trace(
            event("cuda_driver" if call.startswith("cu") else "cuda_runtime", call, 0, 5, correlation=1),
            event("kernel", "k", 7.5, 2, stream=7, correlation=1, device=0),
            event("kernel", "nobody launched it", 20, 2, stream=7, correlation=2, device=0),
        )
        launch = breakdown.launches(found)
        assert [column.tolist() for column in launch[1:]] == [[1], [5000], [2000], [2500]]

    def test_a_copy_is_no_communication_on_amd(self, trace: Any) -> None:
        found = trace(launched("Memcpy HtoD (Host -> Device)", (0, 1), (3, 5)))
        assert [row["kernel_type"] for row in breakdown.kernels(found)] == ["MEMORY"]

    def test_statistics_of_kernels(self, trace: Any) -> None:
        found = trace(*(launched("gemm", (n * 10, 1), (n * 10 + 2, n)) for n in (1, 2, 6)))
        [row] = breakdown.kernels(found)
        assert (row["count"], row["sum (us)"], row["mean (us)"], row["min (us)"], row["max (us)"]) == (3, 9, 3, 1, 6)
        assert row["stddev"] == pytest.approx(np.std([1, 2, 6], ddof=1))

    def test_a_cpu_has_a_table_too(self, trace: Any) -> None:
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


def a_step(number: int, start: float, work: float = 100, talk: float = 0) -> list[Any]:
    """As a CPU records it, with ranks that talk at the end."""
    return [
        event("user_annotation", f"ProfilerStep#{number}", start, work + talk),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", start, 20),
        event("cpu_op", "aten::conv2d", start + 20, 30),
        event("cpu_op", "aten::mkldnn_convolution", start + 25, 20),
        event("cpu_op", "autograd::engine::evaluate_function: ConvBackward", start + 55, 25),
        event("cpu_op", "aten::mm", start + 60, 10),
        event("user_annotation", "Optimizer.step#Adam.step", start + 85, 10),
        event("user_annotation", "gloo:all_reduce", start + work, talk),
    ]


def test_phases_of_steps_add_up(trace: Any) -> None:
    found = steps(trace(a_step(4, 0), a_step(5, 1000)))
    assert [step.number for step in found] == [4, 5]
    for step in found:
        assert tuple(step.phases) == PHASES
        assert sum(step.phases.values()) == step.end - step.start
    microseconds = {name: time / 1000 for name, time in found[1].phases.items() if time}
    assert microseconds == {"data wait": 20, "forward": 30, "backward": 25, "optimizer": 10, "other": 15}


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


def test_who_makes_the_others_wait(trace: Any) -> None:
    ranks = {
        0: trace(a_step(1, 0, work=100, talk=50), a_step(2, 200, work=110, talk=40)),
        1: trace(a_step(1, 0, work=149, talk=1), a_step(2, 200, work=149, talk=1), a_step(3, 400)),
    }
    slow, quick = stragglers(ranks)
    assert (slow["rank"], quick["rank"]) == (1, 0)
    assert (slow["steps"], slow["behind(us)"], quick["behind(us)"]) == (2, 44, 0)
    assert any("rank 1 is the slowest" in str(finding) for finding in findings(ranks))


def test_cycles_of_a_rank_are_one_rank(trace: Any) -> None:
    quick, slow = {"work": 100, "talk": 50}, {"work": 149, "talk": 1}
    cycles = {
        "0 (rank0.cycle0)": trace(a_step(1, 0, **quick)),
        "0 (rank0.cycle1)": trace(a_step(9, 0, **quick)),
        "1 (rank1.cycle0)": trace(a_step(1, 0, **slow)),
        "1 (rank1.cycle1)": trace(a_step(9, 0, **slow)),
    }
    assert [(row["rank"], row["steps"]) for row in stragglers(cycles)] == [(1, 2), (0, 2)]
    assert stragglers({name: each for name, each in cycles.items() if name.startswith("0")}) == []


def test_copies_and_how_fast_they_are(trace: Any) -> None:
    [row] = copies(
        trace(
            launched("gemm", (0, 1), (10, 10)),
            launched("Memcpy HtoD (Pageable -> Device)", (2, 1), (15, 10), stream=9, bytes=20_000),
        )
    )
    assert (row["bytes"], row["bandwidth(GB/s)"], row["under_computation_pctg"]) == (20_000, 2, 50)


def test_findings_are_ordered_by_what_they_cost(trace: Any) -> None:
    kernels = launched("gemm", (21, 1), (22, 5)), launched("gemm", (121, 1), (122, 5))
    found = findings({0: trace(a_step(1, 0), a_step(2, 100), *kernels)})
    assert [finding.share for finding in found] == sorted((finding.share for finding in found), reverse=True)
    assert "host wait" in found[0].text
    assert found[0].share == pytest.approx(95 / 105)
    [data] = [finding for finding in found if "waits for data" in finding.text]
    assert (data.share, data.part) == (0.2, "parts 3 and 5")
    assert "20%" in str(data)


@given(INTERVALS, INTERVALS)
def test_sets_of_time(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Against sets of single moments."""
    spans, moments = [], []
    for intervals in (one, other):
        start = np.array([start for start, _ in intervals], np.int64)
        spans.append(union(start, start + np.array([length for _, length in intervals], np.int64)))
        moments.append({moment for start, length in intervals for moment in range(start, start + length)})

    def as_moments(found: Spans) -> set[int]:
        return {moment for start, end in zip(*found, strict=True) for moment in range(start, end)}

    assert as_moments(spans[0]) == moments[0]
    assert as_moments(overlap(*spans)) == moments[0] & moments[1]
    assert as_moments(without(*spans)) == moments[0] - moments[1]
    assert overlap(*spans).length == len(moments[0] & moments[1])


class TestNotebooks:
    def test_the_analyses_by_their_names(self, tmp_path: Path) -> None:
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

    def test_pictures_are_drawn(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
