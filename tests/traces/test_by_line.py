"""The time of a device, or of operators, by line of the user's code."""

from typing import Any

import pytest
from conftest import Run
from made_traces import BACKWARD, MAIN, STEP, event, function, kernel, made_up, operator, write

from workshop.traces import by_line, read
from workshop.traces.code_places import CodePlace, calling_place, function_place
from workshop.traces.trace import Trace

OF_STEP = {
    "model.py:9": (40 + 80, 2),
    "train.py:7": (20, 1),
    "model.py:8 in forward": (5 + 6, 2),
    "train.py:6": (7, 1),
    "train.py:4": (0, 0),
    "train.py:5": (0, 0),
    "train.py:1 in <module>": (0, 0),
}


def by_place(trace: Trace, work: str = "device(us)") -> dict[str, tuple[float, int]]:
    rows = by_line.line_rows(trace)
    (whole,) = by_line.sum_row(trace)
    assert sum(row[work] for row in rows) == pytest.approx(whole["sum(us)"])
    assert whole["sum(us)"] == pytest.approx(whole["recorded(us)"])
    return {row["place"]: (round(row[work], 6), row["runs"]) for row in rows}


def test_each_kernel_belongs_to_the_line_that_launched_it_or_to_that_of_its_forward_pass(trace: Any) -> None:
    assert by_place(trace(*STEP)) == OF_STEP
    (whole,) = by_line.sum_row(trace(*STEP))
    assert (whole["in_lines_pctg"], whole["stacks"]) == (100, "lines")


def test_the_time_of_a_thread_in_a_line_is_without_the_lines_that_it_calls(trace: Any) -> None:
    host = {row["place"]: row["host(us)"] for row in by_line.line_rows(trace(*STEP))}
    assert host["train.py:5"] == 100 - 90
    assert host["model.py:8 in forward"] == 90 - 20 + 10, "with its backward pass"
    assert host["model.py:9"] == 20 + 30
    assert host["train.py:6"] == 200 + 10


def test_what_has_no_line_is_in_a_row_that_says_why(trace: Any) -> None:
    replayed = kernel(705, 3, name="cudaGraphLaunch")
    found = by_place(
        trace(
            *STEP,
            function("torch/cuda/graphs.py(88): replay", 700, 20, "train.py:8"),
            *replayed,
            function("nn.Module: OptimizedModule_0", 750, 50, "train.py:9"),
            event("user_annotation", "Torch-Compiled Region: 0/0", 755, 40),
            *kernel(760, 9),
            *kernel(990, 2),
            kernel(1, 11)[1:],
            *kernel(1200, 13),
            function("torch/_inductor/compile_worker/__main__.py(9): main", 1300, 90),
            *kernel(1310, 14),
            operator("autograd::engine::evaluate_function: ViewBackward0", 1500, 10, 99, 1, BACKWARD),
            *kernel(1501, 15, BACKWARD),
        )
    )
    assert {place: each for place, each in found.items() if place not in OF_STEP} == {
        "train.py:8 (a replayed graph)": (3, 1),
        "train.py:9 (a compiled region)": (9, 1),
        "no stack: its launch is not in the trace": (11, 1),
        "no stack: nothing of Python called it": (13 + 15, 2),
        "no stack: only libraries called it": (14, 1),
        "train.py:8": (0, 0),
        "train.py:9": (0, 0),
    }


def test_threads_that_number_their_nodes_alike(trace: Any) -> None:
    other = 8
    forward = [
        (
            function(f"torch/f.py({n}): f", 100 + n, 1, f"{file}.py:{n}") | {"tid": tid},
            operator("aten::x", 100 + n, 1, n),
        )
        for file, tid, numbers in (("one", MAIN, (1, 2, 3)), ("other", other, (2, 3, 4)))
        for n in numbers
    ]
    operators = [(call, made | {"tid": call["tid"]}) for call, made in forward]
    backward = [
        [
            operator("autograd::engine::evaluate_function: XBackward", ts, 4, n, thread, BACKWARD),
            *kernel(ts, dur, BACKWARD),
        ]
        for ts, thread, n, dur in ((200, 1, 3, 1), (210, 1, 2, 2), (220, 1, 1, 3), (230, 2, 4, 4), (240, 2, 3, 5))
    ]
    found = by_place(
        trace(*(each for pair in operators for each in pair), *(each for part in backward for each in part))
    )
    assert {place: time for place, (time, _) in found.items() if time} == {
        "one.py:3": 1,
        "one.py:2": 2,
        "one.py:1": 3,
        "other.py:4": 4,
        "other.py:3": 5,
    }


def test_on_a_cpu_the_operators_own_time_takes_the_place_of_kernels(trace: Any) -> None:
    found = trace(*(each for each in STEP if each["cat"] not in ("kernel", "cuda_runtime")))
    assert by_place(found, "operators(us)") == OF_STEP | {
        "model.py:9": (10 + 30, 4),
        "model.py:8 in forward": (10 + 10, 2),
        "train.py:6": (10, 1),
        "train.py:7": (0, 0),
    }


def test_the_stacks_of_older_versions(trace: Any) -> None:
    stack = "torch/nn/functional.py(1692): linear;/home/me/net.py(12): forward;train.py(30): <module>;"
    found = trace(
        event("cpu_op", "aten::linear", 0, 30, **{"Call stack": stack}),
        event("cpu_op", "aten::addmm", 5, 20),
        *kernel(10, 40),
        event("cpu_op", "aten::add", 50, 30, **{"Call stack": ""}),
        *kernel(55, 3),
    )
    assert by_place(found) == {"/home/me/net.py:12": (40, 1), "no stack: nothing of Python called it": (3, 1)}


def test_a_launch_that_is_not_there_is_found_by_its_operator(trace: Any) -> None:
    call = function("<built-in method mm of type object>", 0, 30, "train.py:3")
    op = event("cpu_op", "aten::mm", 5, 20, **{"External id": 12})
    run = event("kernel", "gemm", 90, 9, stream=7, correlation=5, device=0, **{"External id": 12})
    assert by_place(trace(call, op, run))["train.py:3"] == (9, 1)


@pytest.mark.parametrize("seed", range(12))
def test_the_rows_add_up_whatever_is_missing(seed: int, tmp_path: Any) -> None:
    found = read(write(tmp_path / "trace.json", made_up(seed)))
    assert {*by_place(found, "device(us)" if len(found.gpu) else "operators(us)")} <= {
        "no stack: none was recorded",
        "no stack: its launch is not in the trace",
    }
    assert by_line.sum_row(found)[0]["stacks"] == "none"


def test_what_is_the_users() -> None:
    assert function_place("src/net.py(12): forward") == CodePlace("src/net.py", 12, "forward")
    assert function_place("<ipython-input-3-0f1e>(2): step") == CodePlace("<ipython-input-3-0f1e>", 2, "step")
    for name in (
        "transformers/trainer.py(9): step",
        "typing.py(9): cast",
        "<built-in method mm of type object at 0x7f>",
    ):
        assert function_place(name) is None, name
    assert function_place("/usr/lib/python3.11/site-packages/net.py(9): f") is None
    assert function_place("C:\\work\\net.py(9): f") == CodePlace("C:\\work\\net.py", 9, "f")
    assert calling_place("/tmp/torchinductor_me/ab/cab.py:9") is None
    assert function_place("timm.py(9): f") == CodePlace("timm.py", 9, "f"), "a script, and not the package"
    assert calling_place("train.py:5") == CodePlace("train.py", 5)


LOSS = """
import torch


def distance(out, target):
    gap = out - target
    return torch.mean(
        gap.pow(2),
    )
"""

TRAINING = """
import torch
from loss import distance

net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.ones(4, 8)
    for _ in range(3):
        x = torch.tanh(x)
    out = net(x)
    distance(out, torch.zeros(4, 2)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_real_training_on_a_cpu(workshop: Run, tmp_path: Any) -> None:
    (tmp_path / "loss.py").write_text(LOSS)
    (tmp_path / "train.py").write_text(TRAINING)
    done = workshop("record", "torch", "--with-stack", "--wait=1", "--active=2", "--", "train.py")
    assert done.returncode == 0, done.stderr
    assert "workshop trace prof --by line" in done.stderr
    (path,) = (tmp_path / "prof").glob("*.gz")
    found = read(path)
    runs = {place: runs for place, (_, runs) in by_place(found, "operators(us)").items() if runs}
    if by_line.sum_row(found)[0]["stacks"] != "lines":
        assert "loss.py:5 in distance" in runs
        return
    tanh = sum(found.names[name] == "aten::tanh" for name in found.events.name)
    assert runs["train.py:10"] == tanh == 6
    assert runs["loss.py:6"] == 2 * 3, "aten::sub, and what the engine calls for its backward pass"
    source = {row["place"]: row["source"] for row in by_line.line_rows(found)}
    assert source["loss.py:6"] == "gap = out - target"
    assert {"train.py:8", "train.py:11", "train.py:12", "train.py:13", "loss.py:6", "loss.py:7", "loss.py:8"} <= {*runs}
    assert not any(place.startswith("no stack") for place in runs)
