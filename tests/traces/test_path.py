"""The critical path, held against programs whose simulation tells how long they take, with and without an operator."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import event, launched, made_up, write
from simulated_step import SimulatedStep

from workshop.traces import read
from workshop.traces.decoding import TraceError
from workshop.traces.hta.analysis import TraceAnalysis
from workshop.traces.hta.path import SHOWN
from workshop.traces.path import (
    critical_path,
    durations_without,
    of_typical_step,
    operator_rows,
    path_rows,
    typical_step,
)
from workshop.traces.path.dependencies import operator_names
from workshop.traces.trace_findings import findings

PATHS = json.loads(Path(__file__).with_name("paths_of_hta.json").read_text())
"""What traceinsight 0.6.1 answers, by the seed of the simulated step."""


@settings(max_examples=80)
@given(st.randoms(use_true_random=False), st.integers(0, 4), st.booleans())
def test_a_simulated_step_takes_as_long_as_its_path(chance: random.Random, streams: int, whole: bool) -> None:
    step = SimulatedStep(chance, streams)
    end = step.simulate()[whole]
    with TemporaryDirectory() as folder:
        trace = read(write(Path(folder) / "trace.json", {"traceEvents": step.trace()}))
    window = typical_step(trace)
    assert window is not None
    path = critical_path(trace, window._replace(end=end, ends_with="anything" if whole else "thread"))
    graph, moments = path.graph, path.moments
    # Every piece begins where the one before ends, and together they are the step.
    assert np.array_equal(graph.time[moments[1:]] - graph.self_time[moments[1:]], graph.time[moments[:-1]])
    assert sum(path.times().values()) == path.duration == end
    # The step without an operator is what the simulation says.
    operators = np.unique(graph.operator[graph.operator >= 0])
    names = [operator_names(trace.names, operator) for operator in operators.tolist()]
    assert set(names) <= step.keys()
    for key, without in zip(names, durations_without(graph, operators).tolist(), strict=True):
        assert without == step.simulate(key)[whole], key


@pytest.mark.parametrize("seed", range(20))
def test_an_odd_trace_has_a_path_without_gaps(seed: int, tmp_path: Path) -> None:
    path = of_typical_step(read(write(tmp_path / "trace.json", made_up(seed))))
    assert path is not None
    assert sum(path.times().values()) == path.duration
    assert durations_without(path.graph, np.array([-2])).tolist() == [path.duration]


def test_a_path_that_a_hand_can_follow(trace: Any) -> None:
    step = trace(
        event("user_annotation", "ProfilerStep#1", 0, 90),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 0, 10),
        event("cpu_op", "aten::mm", 12, 8),
        launched("gemm", (14, 2), (18, 40)),
        event("cpu_op", "aten::relu", 22, 6),
        launched("relu", (24, 2), (60, 10)),
        event("cpu_op", "aten::item", 30, 50),
        event("cuda_runtime", "cudaStreamSynchronize", 32, 43, correlation=10**6),
        event("cuda_sync", "Stream Sync", 33, 42, stream=7, device=0, correlation=10**6),
    )
    assert {row["kind"]: row["time(us)"] for row in path_rows(of_typical_step(step))} == {
        "data wait": 10,
        "Python": 2 + 10,
        "CPU operators": 2 + 5,  # aten::mm until it launches, aten::item from the end of the synchronisation
        "launch delay": 4,
        "kernels": 40 + 10,
        "gaps between kernels": 2,
        "synchronisation": 5,
    }
    rows = {(row["name"], row["launched_by"]): row for row in operator_rows(of_typical_step(step))}
    assert next(iter(rows)) == ("gemm", "aten::mm")
    # Without gemm, relu waits for its own launch at 24, and the step is 34 shorter, not 40.
    assert rows["gemm", "aten::mm"]["time(us)"] == 40
    assert rows["gemm", "aten::mm"]["without(us)"] == 56
    assert ("aten::relu", None) not in rows  # the CPU was early
    [text] = [each.text for each in findings({0: step}) if each.topic == "critical path"]
    assert "step 1 is bound by kernels for 56%" in text
    assert "gemm, launched by aten::mm, counts most: without it, this would take 56 µs instead of 90 µs" in text


def test_an_operator_that_launches_runs_once(trace: Any) -> None:
    launching = event("cuda_runtime", "cudaLaunchKernel", 15, 5)
    [row] = operator_rows(of_typical_step(trace(event("cpu_op", "aten::mm", 10, 20), launching)))
    assert (row["name"], row["count"], row["time(us)"]) == ("aten::mm", 1, 20)


def test_a_step_that_the_cpu_leaves_early_ends_when_the_device_does(trace: Any) -> None:
    """The CPU launches a step in 100 µs, and each keeps the device busy for 300 µs."""
    starts = [100 * number for number in range(5)]
    steps = [event("user_annotation", f"ProfilerStep#{start // 100}", start, 100) for start in starts]
    work = [
        [event("cpu_op", "aten::mm", start, 90), *launched("gemm", (start, 5), (3 * start + 10, 300))]
        for start in starts
    ]
    found = trace(steps, *work)
    assert {row["kind"]: row["time(us)"] for row in path_rows(of_typical_step(found))} == {"kernels": 300}
    assert not any(row["name"] == "aten::mm" for row in operator_rows(of_typical_step(found)))
    assert typical_step(found) == ("step 2", 610_000, 910_000, 0, "device")


def test_a_wait_that_the_trace_does_not_explain_is_called_unknown(trace: Any) -> None:
    work = event("cpu_op", "aten::mm", 0, 20), launched("gemm", (1, 5), (80, 20))
    found = trace(event("user_annotation", "ProfilerStep#1", 0, 30), *work)
    assert {row["kind"]: row["time(us)"] for row in path_rows(of_typical_step(found))} == {
        "CPU operators": 1,
        "unknown waits of streams": 79,
        "kernels": 20,
    }
    assert not any(each.topic == "critical path" for each in findings({0: found}))


def test_the_time_of_the_wait_for_data_is_named_once(trace: Any) -> None:
    found = trace(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 45),
        event("cpu_op", "aten::stack", 5, 35),
        event("cpu_op", "aten::mm", 45, 30),
        event("cpu_op", "aten::relu", 75, 25),
    )
    waits, bound = (each.text for each in findings({0: found}) if each.topic in ("data wait", "critical path"))
    assert "waits for data for 45% of its steps (45 µs); without this, step 1 would take 55 µs" in waits
    assert "step 1 is bound by CPU operators for 55% of its time. On its critical path, aten::mm counts most" in bound
    assert "without it, this would take 70 µs" in bound


def test_the_path_of_an_annotation(tmp_path: Path) -> None:
    marks = [event("user_annotation", "## forward ##", start, 30) for start in (5, 105)]
    runs = [event("cpu_op", name, start, dur) for name, start, dur in (("aten::mm", 100, 20), ("aten::add", 125, 30))]
    write(tmp_path / "trace.json", {"traceEvents": [*marks[::-1], *runs]})
    analysis = TraceAnalysis(trace_files={0: str(tmp_path / "trace.json")})
    pieces, operators = analysis.get_critical_path("forward", 1)
    assert dict(zip(pieces["kind"], pieces["time(us)"], strict=True)) == {"CPU operators": 25, "Python": 5}
    assert dict(zip(operators["name"], operators["without(us)"], strict=True)) == {"aten::mm": 15, "aten::add": 20}
    with pytest.raises(TraceError, match="no instance 2"):
        analysis.get_critical_path("forward", 2)


def test_the_typical_step_is_neither_the_first_nor_an_outlier(trace: Any) -> None:
    starts = enumerate([0, 500, 700, 1000, 1150])
    steps = [event("user_annotation", f"ProfilerStep#{number}", start, 100) for number, start in starts]
    for step, dur in zip(steps, [400, 150, 290, 120, 100], strict=True):
        step["dur"] = dur
    window = typical_step(trace(steps))
    assert window is not None
    assert window.name == "step 1"
    assert typical_step(trace()) is None
    stub = [event("user_annotation", f"ProfilerStep#{number}", 500 * number, 100 - 90 * number) for number in range(2)]
    window = typical_step(trace(stub))
    assert window is not None
    assert window.name == "step 0", "of two, the last may be recorded in part"


@pytest.mark.parametrize("seed", PATHS)
def test_the_path_of_holistic_trace_analysis(seed: str, tmp_path: Path) -> None:
    chance = random.Random(int(seed))
    events = SimulatedStep(chance, 1 + int(seed) % 3).trace()
    for each in events:  # a ns of the simulation is a µs here: the original rounds to µs
        each |= {"ts": round(each["ts"] * 1000) + 1000, "dur": round(each["dur"] * 1000)}
    write(tmp_path / "trace.json", {"traceEvents": events})
    analysis = TraceAnalysis(trace_files={0: str(tmp_path / "trace.json")})
    graph, found = analysis.critical_path_analysis(0, "ProfilerStep", 0)
    table = graph.get_critical_path_breakdown()
    assert found
    assert table is not None
    assert {
        "nodes": len(graph.critical_path_nodes),
        "edges": len(graph.critical_path_edges_set),
        "bound_by": table.groupby("bound_by").duration.sum().to_dict(),
    } == PATHS[seed]
    assert graph.summary().sum() == pytest.approx(100)
    edge = max(graph.critical_path_edges_set, key=lambda edge: edge.weight)
    event = graph.get_event_attribution_for_edge(edge)
    assert event is not None
    assert edge in graph.get_edges_attributed_to_event(event)
    start, stop = graph.get_nodes_for_event(event)
    assert start is not None
    assert stop is not None
    assert (start.is_start, stop.is_start, start.ev_idx, stop.ev_idx) == (True, False, event, event)
    with pytest.raises(TraceError, match="no instance 7"):
        analysis.critical_path_analysis(0, "ProfilerStep", 7)

    written = json.loads(Path(analysis.overlay_critical_path_analysis(0, graph, str(tmp_path / "new"))).read_bytes())
    shown = [each for each in written["traceEvents"] if each["ph"] == "X" and each["cat"] != "user_annotation"]
    assert len(shown) == len(graph.critical_path_events_set)
    starts, ends = ([each for each in written["traceEvents"] if each["ph"] == phase] for phase in "sf")
    assert len(starts) == len(ends) == sum(table["type"].isin([kind.value for kind in SHOWN]))
    assert all(one["id"] == other["id"] and one["ts"] <= other["ts"] for one, other in zip(starts, ends, strict=True))
