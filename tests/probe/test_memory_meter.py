"""Steps are recorded at the right time: two in a row, and the last one whole."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _len_torch_dispatch_stack
from torch.utils.data import DataLoader

from workshop.probe import noted_settings, wire
from workshop.probe.connection import Connection
from workshop.probe.event_file import why_lost
from workshop.probe.memory.memory_meter import MemoryMeter
from workshop.probe.memory.memory_notes import MemorySegment, OldGraph, SegmentName, TensorKind
from workshop.probe.settings import ProbeConfig

UNIT = 4 << 20


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MemoryMeter]:
    """A meter that has begun."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    ends = socket.socketpair()
    meter = MemoryMeter(ProbeConfig(str(tmp_path), "", memory=True))
    meter.training.meter.parent = Connection(ends[1])
    put_back = meter.segments.allocator.scopes.watch()
    meter.training.hooks.install()
    yield meter
    meter.training.hooks.remove()
    meter.segments.leave()
    put_back()
    for end in ends:
        end.close()


class Training:
    """Each step makes something large, and holds it until the next one has made the same."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.held = torch.zeros(1)

    def steps(self, number: int) -> None:
        for _ in range(number):
            inputs = torch.randn(64, 64)
            self.held = inputs.repeat(1, UNIT // inputs.nbytes).exp()
            self.optimizer.zero_grad()
            self.model(inputs).square().mean().backward()
            self.optimizer.step()

    def validate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            self.model(torch.randn(64, 64))
        self.model.train()


def events(folder: Path) -> list[object]:
    return [wire.decode(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def noted(folder: Path) -> list[MemorySegment]:
    return [each for each in events(folder) if isinstance(each, MemorySegment)]


def test_the_second_of_two_recorded_steps_shows_what_is_kept_of_the_first(meter: MemoryMeter, tmp_path: Path) -> None:
    Training().steps(6)
    steps = {each.step: each for each in noted(tmp_path) if each.name == SegmentName.TRAINING}
    assert {0, 2, 3} <= steps.keys()
    assert [each.step for each in steps.values() if each.devices[0].allocator_bytes is None] == [3]
    assert steps[2].devices[0].allocator_bytes == pytest.approx(steps[2].devices[0].followed_bytes, rel=0.02)
    assert steps[3].devices[0].peak_bytes > steps[2].devices[0].peak_bytes + 0.9 * UNIT
    freed = {each.cause: each.bytes for each in steps[3].freed}
    assert freed["kept-into-next-step"] == pytest.approx(UNIT, rel=0.1)
    assert "kept-into-next-step" not in {each.cause for each in steps[2].freed}


def test_what_is_never_let_go_is_not_kept_into_the_next_step_alone(meter: MemoryMeter, tmp_path: Path) -> None:
    training, history = Training(), []
    for _ in range(6):
        training.steps(1)
        history.append(training.held)
    assert "kept-into-next-step" not in {lower.cause for each in noted(tmp_path) for lower in each.freed}
    assert len(history) == 6


def test_a_step_with_a_validation_before_it_is_recorded_from_its_forward_pass_on(
    meter: MemoryMeter, tmp_path: Path
) -> None:
    training = Training()
    for number in range(8):
        meter.steps.is_last_wanted = number == 6
        training.validate()
        training.steps(1)
    steps = [each for each in noted(tmp_path) if each.name == SegmentName.TRAINING]
    assert {2, 3} <= {each.step for each in steps}
    assert [each.step for each in steps if each.is_last] == [7]
    assert all(TensorKind.ACTIVATIONS in {row.kind for row in each.at_peak} for each in steps)


def test_a_validation_with_a_loss_function_is_one_and_its_graph_has_a_holder(
    meter: MemoryMeter, tmp_path: Path
) -> None:
    """The loss function is a module, too, and in training mode all the time."""
    training, criterion, total = Training(), nn.MSELoss(), torch.zeros(())
    training.steps(3)
    training.model.eval()
    for _ in range(8):
        total = total + criterion(training.model(torch.randn(64, 64)), torch.zeros(64, 1))
    training.model.train()
    training.steps(2)
    [validation] = [each for each in noted(tmp_path) if each.name == SegmentName.VALIDATION]
    freed = {each.cause: each.bytes for each in validation.freed}
    assert freed["validation-graph"] > 6 * 64 * 512 * 4, "the activations of most of its batches"
    graphs = [each for each in events(tmp_path) if isinstance(each, OldGraph) and each.validation]
    assert max(graphs, key=lambda each: each.old_operations).holder == "total"
    assert total.requires_grad


def test_a_validation_that_asks_for_gradients_needs_its_graph(meter: MemoryMeter, tmp_path: Path) -> None:
    """As an attack on the inputs does, or a training that was left in evaluation mode."""
    training = Training()
    training.steps(3)
    training.model.eval()
    for _ in range(8):
        inputs = torch.randn(64, 64, requires_grad=True)
        training.model(inputs).square().mean().backward()
    training.model.train()
    training.steps(2)
    assert any(each.name == SegmentName.VALIDATION for each in noted(tmp_path))
    assert "validation-graph" not in {lower.cause for each in noted(tmp_path) for lower in each.freed}


@pytest.mark.parametrize("without_graph", [torch.no_grad, torch.inference_mode])
def test_a_validation_of_a_model_in_training_mode(
    meter: MemoryMeter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without_graph: type
) -> None:
    training, loader = Training(), DataLoader(torch.randn(320, 64), 64)
    monkeypatch.setitem(vars(loader), noted_settings._NUMBER, 0)
    monkeypatch.setitem(noted_settings._sites, 0, "where it was made")
    training.steps(4)
    with without_graph():
        outputs = [training.model(each) for each in loader]
    training.steps(2)
    assert {each.step for each in noted(tmp_path) if each.name == SegmentName.VALIDATION} == {4}
    assert len(outputs) == 5


@pytest.mark.parametrize("asks_inside", [True, False])
def test_pseudo_labels_are_part_of_a_step(meter: MemoryMeter, tmp_path: Path, asks_inside: bool) -> None:
    """A model says, without gradients and in training mode, what it is then trained to say of changed inputs."""
    training = Training()
    labelled, unlabelled = iter(DataLoader(torch.randn(640, 64), 64)), iter(DataLoader(torch.randn(640, 64), 64))
    for _ in range(8):
        loss = training.model(next(labelled)).square().mean()
        inputs = None if asks_inside else next(unlabelled)
        with torch.no_grad():
            inputs = next(unlabelled) if inputs is None else inputs
            wanted = training.model(inputs)
        training.optimizer.zero_grad()
        (loss + (training.model(inputs + 0.1) - wanted).square().mean()).backward()
        training.optimizer.step()
    segments = noted(tmp_path)
    after_the_first = [each for each in segments if each.step >= 2]
    assert {each.name for each in after_the_first} == {SegmentName.TRAINING}
    assert all(TensorKind.BACKWARD in {row.kind for row in each.at_peak} for each in after_the_first)


def test_who_holds_views_and_how_much_they_are_views_of(meter: MemoryMeter, tmp_path: Path) -> None:
    """The tensor that each is a part of is in Python, too, but only its view holds it."""
    training, kept = Training(), list[torch.Tensor]()
    for number in range(12):
        meter.steps.is_last_wanted = number == 10
        inputs = torch.randn(64, 64)
        kept.append(inputs[0])
        training.steps(1)
    last = next(each for each in noted(tmp_path) if each.is_last)
    row = max((each for each in last.at_end if each.holder.startswith("kept")), key=lambda each: each.bytes)
    assert row.bytes >= 6 * 64 * 64 * 4
    assert row.viewed_bytes <= row.bytes / 8


def fails(*_: object) -> None:
    raise LookupError("an object that cannot be looked at")


def test_a_fault_in_the_look_for_holders_is_lost_and_the_step_is_noted(
    meter: MemoryMeter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("workshop.probe.memory.holder_look.note_host_objects", fails)
    training = Training()
    for number in range(12):
        meter.steps.is_last_wanted = meter.steps.is_last_wanted or number in (6, 9)
        training.steps(1)
    assert len([each for each in noted(tmp_path) if each.is_last]) == 2
    assert "an object that cannot be looked at" in why_lost(tmp_path)


def test_nothing_is_recorded_after_a_fault(meter: MemoryMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profiler, and a mode that sees each operator, would go on for as long as the script does."""
    training = Training()
    training.steps(2)
    monkeypatch.setattr(meter.segments.unneeded, "after_backward", fails)
    training.steps(3)
    assert not torch.autograd._profiler_enabled()
    assert not _len_torch_dispatch_stack()
    assert meter.segments.name is None


class Batches(Training):
    """Each step assigns variables anew, and a list keeps what they had until the epoch is over."""

    def epoch(self, meter: MemoryMeter, steps: int, look_at: int = -1) -> None:
        kept = []
        first = None
        for number in range(steps):
            meter.steps.is_last_wanted = meter.steps.is_last_wanted or number == look_at
            inputs = torch.randn(64, 64)
            first = inputs if first is None else first
            self.optimizer.zero_grad()
            loss = self.model(inputs).square().mean()
            loss.backward()
            self.optimizer.step()
            kept.append((inputs, loss))


@pytest.mark.parametrize(("look_at", "holder", "steps"), [(9, "kept[...][...]", 8), (0, "inputs", 0)])
def test_a_variable_that_each_step_assigns_anew_holds_nothing_of_earlier_steps(
    meter: MemoryMeter, tmp_path: Path, look_at: int, holder: str, steps: int
) -> None:
    meter.segments.every_step = True
    training = Batches()
    training.epoch(meter, 12)
    training.epoch(meter, 12, look_at)
    [look] = [each for each in noted(tmp_path) if each.is_last]
    rows = [each for each in look.at_end if each.dtype == "float32" and each.bytes // each.count == 64 * 64 * 4]
    assert [(each.holder, each.holder_steps) for each in rows if each.holder] == [(holder, steps)]
