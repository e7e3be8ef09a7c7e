"""A training that is measured reports its steps, and goes on to another stage when it is asked to."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from workshop.probe import noted_settings
from workshop.probe.batch_meter import measure_batch
from workshop.probe.connection import Connection
from workshop.probe.event_file import why_lost
from workshop.probe.loader_settings import LoaderSettings
from workshop.probe.measured_training import measured_training
from workshop.probe.messages import AsItIs, FromMemory, KeepBatches, LoadWith, TryCauses, WarmUp
from workshop.probe.phases import Phase
from workshop.probe.settings import ProbeConfig
from workshop.probe.stack_sampler import TrainingSampler
from workshop.probe.step_meter import StepMeter
from workshop.probe.trials.watcher import Watcher


@dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "samples", "size"),
    [
        (torch.ones(4, 2), 4, 32),
        ([torch.ones(3), 5], 3, 12),
        ({"x": [1, torch.ones(2, 1)]}, 2, 8),
        (Batch(torch.ones(6), torch.ones(6)), 6, 48),
        (((torch.ones(5, dtype=torch.uint8),), {}), 5, 5),
        ("none", 0, 0),
        (torch.tensor(1.0), 0, 0),
    ],
)
def test_the_samples_and_the_size_of_a_batch(batch: Any, samples: int, size: int) -> None:
    assert measure_batch(batch) == (samples, size)


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Connection]:
    """The other end of a meter that reports each step."""
    monkeypatch.setattr("workshop.probe.step_meter.REPORT_EVERY_S", 0.0)
    ends = socket.socketpair()
    training = measured_training(ProbeConfig(str(tmp_path), ""))
    training.meter.parent = Connection(ends[1])
    training.hooks.install()
    yield Connection(ends[0])
    training.hooks.remove()
    for each in training.hooks.audience.listeners:
        if isinstance(each, TrainingSampler):
            each.sampler.stop()
    for end in ends:
        end.close()


class WithoutLength(nn.Linear):
    """As torch.compile makes of a model: to ask whether it is there by its truth would raise."""

    def __len__(self) -> int:
        raise TypeError("WithoutLength does not support len()")


class Training:
    """Four batches an epoch, and a validation pass after it."""

    def __init__(self) -> None:
        self.model = WithoutLength(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(torch.randn(8, 2), torch.randn(8, 2)), 2)

    def epoch(self) -> None:
        for inputs, targets in islice(self.loader, 4):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(inputs), targets).backward()
            self.optimizer.step()
        with torch.no_grad():
            for inputs, _ in islice(self.loader, 4):
                self.model(inputs)


def test_stages(parent: Connection) -> None:
    training = Training()
    training.epoch()
    first = [parent.receive() for _ in range(4)]
    assert {(each.stage, each.steps, each.samples) for each in first} == {(WarmUp(), 1, 2)}
    assert {each.circumstances.device for each in first} == {"cpu"}
    assert all(each.phases.keys() == set(Phase) for each in first)
    assert [each.batches.training for each in first] == [1] * 4

    parent.send(KeepBatches())
    training.epoch()
    kept = [parent.receive() for _ in range(4)]
    assert [each.stage for each in kept] == [WarmUp(), *[KeepBatches()] * 3], "a message is read after a step"
    assert kept[0].batches.validation == 4
    assert [list(each.forwards) for each in kept] == [[5], [1], [1], [1]], "the validation before it belongs to a step"
    assert sum(each.batches.kept for each in kept) == 3

    parent.send(AsItIs())
    parent.send(FromMemory())
    training.epoch()
    assert [parent.receive().stage for _ in range(4)] == [KeepBatches(), *[FromMemory()] * 3]


class Broken(Watcher):
    def after_forward(self, module: nn.Module, output: Any) -> None:
        raise LookupError("a fault of ours")

    def end(self) -> None:
        raise LookupError("and another one")


@pytest.mark.parametrize("method", ["after_forward", "end"])
def test_a_fault_of_a_watcher_ends_neither_the_script_nor_the_reports(
    method: str, parent: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = type("One", (Watcher,), {method: vars(Broken)[method]})
    monkeypatch.setattr("workshop.probe.measured_training.watchers_for", lambda _, events: [broken(events)])
    training = Training()
    for stage in (TryCauses(("any",)), AsItIs(), AsItIs()):
        training.epoch()
        parent.send(stage)
    reports = [parent.receive() for _ in range(12)]
    assert [each.stage for each in reports] == [WarmUp()] * 5 + [TryCauses(("any",))] * 4 + [AsItIs()] * 3
    assert "LookupError" in why_lost(tmp_path)


def test_other_threads_are_used_while_they_are_tried(parent: Connection) -> None:
    training, own = Training(), torch.get_num_threads()
    training.epoch()
    parent.send(LoadWith(LoaderSettings(threads=own + 1)))
    training.epoch()
    parent.send(WarmUp())
    training.epoch()
    threads = [parent.receive().circumstances.threads for _ in range(12)]
    assert threads[:5] == [own] * 5
    assert threads[5:9] == [own + 1] * 4
    assert threads[9:] == [own] * 3


def test_the_phases_of_a_report_are_those_of_its_steps(parent: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the process is stopped for a moment between the end of a step and its report."""

    def stopped(meter: StepMeter, report: Callable[[StepMeter], None] = StepMeter.report) -> None:
        time.sleep(0.02)
        report(meter)

    monkeypatch.setattr(StepMeter, "report", stopped)
    Training().epoch()
    _, *reports = (parent.receive() for _ in range(4))
    for each in reports:
        assert sum(each.phases.values()) == pytest.approx(each.seconds, abs=1e-5)
        assert each.phases[Phase.OTHER] >= 0.02, "the time after a step belongs to the next one"


def test_a_loop_without_a_loader_counts_what_enters_the_model(parent: Connection) -> None:
    training = Training()
    for _ in range(3):
        training.model(input=torch.randn(5, 2)).sum().backward()
        training.optimizer.step()
    reports = [parent.receive() for _ in range(3)]
    assert [each.samples for each in reports] == [5, 5, 5]
    assert all(each.batches.training == 0 for each in reports)


def test_a_validation_whose_batches_are_loaded_with_gradients_on(
    parent: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a trainer that switches them off around each call of the model; training goes on in its mode."""
    training, valid = Training(), DataLoader(TensorDataset(torch.randn(6, 2)), 2)
    for number, loader in enumerate((training.loader, valid)):
        loader.__dict__["_workshop_number"] = number
        monkeypatch.setitem(noted_settings._sites, number, number)
    batches = iter(training.loader)

    def step() -> None:
        inputs, targets = next(batches)
        training.model.train()
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.model(inputs), targets).backward()
        training.optimizer.step()

    step()
    training.model.eval()
    for (inputs,) in valid:
        with torch.no_grad():
            training.model(inputs)
    time.sleep(0.02)  # what follows from the validation belongs to it
    step()
    step()
    reports = [parent.receive() for _ in range(3)]
    assert [(each.batches.training, each.batches.validation) for each in reports] == [(1, 0), (1, 3), (1, 0)]
    assert [each.phases[Phase.VALIDATION] > 0.02 for each in reports] == [False, True, False]
    assert reports[1].epochs_begun == 0
    assert reports[1].phases[Phase.DATA_WAIT] > 0, "the batch that is trained on"
