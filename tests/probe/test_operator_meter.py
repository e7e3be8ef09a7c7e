"""What operators compute is measured in real steps, which are none the wiser."""

import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.torch_version import TorchVersion

from workshop.diagnosis.samples import read_observations
from workshop.probe.event_file import EventFile
from workshop.probe.internals import is_innermost_mode
from workshop.probe.observations import OperatorWork
from workshop.probe.operator_meter import OperatorMeter, Span, outermost, united
from workshop.probe.phase_clock import PhaseClock
from workshop.probe.phases import CALLS, Phase
from workshop.traces import read
from workshop.traces.code_places import calling_place
from workshop.traces.kept_calls import with_calls
from workshop.traces.step_lines import LinePart, line_parts

ROWS, WIDTH, CLASSES = 32, 512, 128
PRODUCT = 2 * ROWS * WIDTH * CLASSES
"""The floating-point operations of the layer's forward pass."""

Step = Callable[[], None]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Step], OperatorWork]:
    """What is noted of some steps, of which two are profiled."""
    monkeypatch.setattr("workshop.probe.operator_meter.RATED_S", 0.0)

    def measure(step: Step) -> OperatorWork:
        meter = OperatorMeter(EventFile(str(tmp_path)), PhaseClock(), 2)
        for _ in range(4):
            step()
            meter.on_step_end(1)
        meter.end()
        assert not torch.autograd._profiler_enabled()
        assert is_innermost_mode(None), "no dispatch mode is left"
        found = read_observations(tmp_path, [os.getpid()])
        assert found.operators
        return found.operators

    return measure


def trained(layer: nn.Linear) -> Step:
    rows = torch.ones(ROWS, WIDTH)
    return lambda: layer(rows).sum().backward()


def test_the_work_of_a_step_is_counted(work: Callable[[Step], OperatorWork]) -> None:
    found = work(trained(nn.Linear(WIDTH, CLASSES, bias=False)))
    assert found.error == ""
    assert found.operations == 2 * PRODUCT, "forward, and the gradient of the weights; the rows need none"
    weights, rows, results = WIDTH * CLASSES, ROWS * WIDTH, ROWS * CLASSES
    assert found.bytes >= 4 * 2 * (weights + rows + results), "both products read two of them, and write the third"
    assert found.dtype == "float32"
    assert {"float32", "bfloat16"} == found.products.keys()
    assert min(*found.products.values(), found.copied) > 0
    assert found.calls > 4
    assert 0 < found.seconds < found.step_s


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3)])
def test_recurrent_layers_count(kind: type[nn.RNNBase], gates: int, work: Callable[[Step], OperatorWork]) -> None:
    steps, rows, inputs, hidden = 20, 8, 32, 64
    layer, series = kind(inputs, hidden), torch.ones(steps, rows, inputs)
    found = work(lambda: layer(series)[0].sum().backward())
    forward = 2 * steps * rows * gates * hidden * (inputs + hidden)
    assert found.operations == pytest.approx(3 * forward, rel=0.2), "forward, and both gradients"


def test_attention_counts(work: Callable[[Step], OperatorWork]) -> None:
    heads, length, width = 4, 64, 16
    query = torch.ones(2, heads, length, width, requires_grad=True)
    found = work(lambda: nn.functional.scaled_dot_product_attention(query, query, query).sum().backward())
    product = 2 * 2 * heads * length * length * width
    assert found.operations in (6 * product, 7 * product), "two forward; four backward, and one that is made again"


def test_the_type_of_the_numbers_is_that_of_the_products(work: Callable[[Step], OperatorWork]) -> None:
    layer, rows = nn.Linear(WIDTH, CLASSES).double(), torch.ones(ROWS, WIDTH, dtype=torch.float64)
    found = work(lambda: layer(rows).sum().backward())
    assert found.dtype == "float64"
    assert list(found.products) == ["float64", "float32", "bfloat16"]


def test_looking_up_some_rows_reads_no_more_than_these(work: Callable[[Step], OperatorWork]) -> None:
    table, indexes = torch.ones(10_000, 16), torch.arange(8)

    def step() -> None:
        nn.functional.embedding(indexes, table)
        table[3:].t()

    found = work(step)
    assert found.bytes == 8 * 8 + 2 * 4 * 8 * 16, "indexes, and rows that are read and written; views move nothing"


def test_nothing_changes_in_the_script(work: Callable[[Step], OperatorWork]) -> None:
    torch.manual_seed(0)
    layer, threads = nn.Linear(WIDTH, CLASSES), torch.get_num_threads()
    random.seed(0)
    drawn, expected = torch.get_rng_state(), random.getstate()
    work(trained(layer))
    assert torch.equal(torch.get_rng_state(), drawn)
    assert random.getstate() == expected
    assert torch.get_num_threads() == threads
    assert torch.equal(layer.bias.grad, torch.full((CLASSES,), 4.0 * ROWS)), "four steps, with a gradient each"


def test_a_script_that_profiles_itself_is_left_alone(work: Callable[[Step], OperatorWork], tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        meter = OperatorMeter(EventFile(str(tmp_path)), PhaseClock(), 1)
        meter.on_step_end(1)
        assert torch.autograd._profiler_enabled()
    (found,) = [read_observations(tmp_path, [os.getpid()]).operators]
    assert found
    assert found.error == "RuntimeError: the script profiles itself"


@pytest.mark.parametrize("steps", [0, 1])
def test_a_fork_ends_the_recording(steps: int, tmp_path: Path) -> None:
    """What the steps before it have shown is kept."""
    meter = OperatorMeter(EventFile(str(tmp_path)), PhaseClock(), 2)
    for _ in range(steps):
        torch.ones(256, 256) @ torch.ones(256, 256)
        meter.on_step_end(1)
    assert torch.autograd._profiler_enabled()
    pid = os.fork()
    if not pid:
        os._exit(torch.autograd._profiler_enabled())
    assert os.waitpid(pid, 0)[1] == 0
    assert not torch.autograd._profiler_enabled()
    for _ in range(3 - steps):
        meter.on_step_end(1)
    found = read_observations(tmp_path, [os.getpid()]).operators
    assert found
    assert (found.seconds > 0) == bool(steps)
    assert found.error == "" if steps else "RuntimeError: the process was forked meanwhile"


def test_a_fork_does_not_count_on(tmp_path: Path) -> None:
    meter = OperatorMeter(EventFile(str(tmp_path)), PhaseClock(), 1)
    torch.ones(8).sum()
    meter.on_step_end(1)
    assert not is_innermost_mode(None)
    pid = os.fork()
    if not pid:
        os._exit(not is_innermost_mode(None))
    assert os.waitpid(pid, 0)[1] == 0
    assert not is_innermost_mode(None)
    meter.end()
    assert is_innermost_mode(None)


def test_what_lies_in_another_counts_to_it() -> None:
    assert outermost([(0, 10), (1, 4), (2, 3), (4, 10), (10, 12)]) == [Span(0, 10, 4), Span(10, 12)]
    assert united([(0, 10), (2, 5), (8, 12), (20, 21)]) == [Span(0, 12), Span(20, 21)]


def traced(tmp_path: Path, steps: int = 2) -> OperatorWork:
    """What is noted where the steps of a layer are profiled with their stacks."""
    layer, rows, clock = nn.Linear(WIDTH, CLASSES), torch.ones(ROWS, WIDTH), PhaseClock()
    meter = OperatorMeter(EventFile(str(tmp_path)), clock, steps, stacks=True)
    for _ in range(steps + 2):
        result = clock.call(Phase.FORWARD, layer, rows)
        clock.call(Phase.BACKWARD, result.sum().backward)
        meter.on_step_end(1)
    assert (clock.on_enter, clock.on_leave) == (None, None), "nothing is left"
    assert not torch.autograd._profiler_enabled()
    found = read_observations(tmp_path, [os.getpid()]).operators
    assert found
    assert found.error == ""
    assert found.seconds > 0
    return found


def test_the_lines_of_the_profiled_steps_are_kept_by_phase(tmp_path: Path) -> None:
    parts = line_parts(read(tmp_path / traced(tmp_path).trace))
    here = {(Path(each.place.file).name, each.phase) for each in parts if each.launches}
    assert {(Path(__file__).name, Phase.FORWARD), (Path(__file__).name, Phase.BACKWARD)} <= here
    forward = sum(each.launches for each in parts if each.phase is Phase.FORWARD)
    assert forward == sum(each.launches for each in line_parts_of_three_steps(tmp_path) if each.phase is Phase.FORWARD)


def line_parts_of_three_steps(tmp_path: Path) -> list[LinePart]:
    folder = tmp_path / "three"
    folder.mkdir()
    return line_parts(read(folder / traced(folder, 3).trace))


def test_no_trace_is_kept_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workshop.probe.operator_meter.MAX_EVENTS", 10)
    assert traced(tmp_path).trace == ""
    assert not list(tmp_path.glob("*.trace.json"))


def test_a_trace_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f"{os.getpid()}.pt.trace.json" / "in the way").mkdir(parents=True)
    assert traced(tmp_path).trace == ""
    assert read_observations(tmp_path, [os.getpid()]).lost


def test_a_profiler_of_the_scripts_own_stays(tmp_path: Path) -> None:
    def profiles(*_: object) -> None: ...

    before = sys.getprofile()
    sys.setprofile(profiles)
    try:
        assert traced(tmp_path).trace == ""
        assert sys.getprofile() is profiles
    finally:
        sys.setprofile(before)


def test_the_lines_of_calls_are_kept_where_torch_does_not_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.__version__", TorchVersion("2.11.0"))
    path = tmp_path / traced(tmp_path).trace
    trace = read(path)
    without = replace(trace, events=replace(trace.events, stack=np.full(len(trace.events), -1)), stacks=())
    found = with_calls(without, Path(f"{path}{CALLS}"))
    python = trace.events[trace.of("python_function")]
    lines = [found.stacks[each] if each >= 0 else "" for each in found.events.stack[trace.of("python_function")]]
    assert sum(Path(__file__).name in each for each in lines) > 8, "two steps of a forward and a backward pass"
    if trace.stacks:  # torch writes them
        written = [trace.stacks[each] if each >= 0 else "" for each in python.stack]
        assert [each if calling_place(each) else "" for each in written] == lines
        assert line_parts(found) == line_parts(trace)
