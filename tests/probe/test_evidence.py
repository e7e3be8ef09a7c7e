"""A training that is judged keeps evidence, waits between epochs, and takes steps of others."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from workshop.judge.ledger import Ledger
from workshop.judge.step_proof import ROUNDING, STATE_TOLERANCE, STEP_TOLERANCE
from workshop.probe.connection import Connection
from workshop.probe.event_file import EventFile
from workshop.probe.evidence import EvidenceRecorder, _drops_items
from workshop.probe.messages import EpochBegan, EpochEnded, Proceed, Recompute
from workshop.probe.noted_epoch import EpochLength
from workshop.probe.phases import Phase
from workshop.probe.settings import JudgedRun, ProbeConfig
from workshop.probe.signature import values_of_items

ITEMS, BATCH = 10, 4


class Training(NamedTuple):
    """One that runs in a thread of this process, and what the judge holds in hand."""

    judge: Connection
    folder: Path
    future: Future[None]


Start = Callable[..., Training]


class WithoutLength(nn.Sequential):
    """As torch.compile makes of a model: to ask whether it is there by its truth would raise."""

    def __len__(self) -> int:
        raise TypeError("WithoutLength does not support len()")


def train(
    epochs: int, dropout: float, steps_optimizer: bool, in_closure: bool, validates: bool, with_gradients: bool
) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(ITEMS, 3, 8, 8), torch.arange(ITEMS))
    model = WithoutLength(nn.Flatten(), nn.Dropout(dropout), nn.Linear(192, ITEMS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(data, BATCH, shuffle=True)
    for _ in range(epochs):
        for inputs, targets in loader:

            def closure(inputs: torch.Tensor = inputs, targets: torch.Tensor = targets) -> torch.Tensor:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs.to("cpu")), targets)
                loss.backward()
                return loss

            if in_closure:
                optimizer.step(closure)
            else:
                closure()
                if steps_optimizer:
                    optimizer.step()
            if validates:
                with torch.no_grad():
                    list(DataLoader(data, BATCH))
                model.eval()
                list(DataLoader(data, 2))
                model.train()
        if with_gradients:
            model.eval()
            for inputs, targets in DataLoader(data, 5):
                nn.functional.cross_entropy(model(inputs.to("cpu")), targets)
            model.train()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    ends = socket.socketpair()
    pool = ThreadPoolExecutor(1)
    keepers = []

    def start(
        epochs: int = 3,
        dropout: float = 0.0,
        steps_optimizer: bool = True,
        in_closure: bool = False,
        validates: bool = False,
        with_gradients: bool = False,
        sample_step: int = 1,
    ) -> Training:
        config = ProbeConfig(str(tmp_path), 0, 0, JudgedRun(None, None, sample_step))
        keepers.append(EvidenceRecorder(config, Connection(ends[1]), EventFile(str(tmp_path))))
        keepers[-1].hooks.install()
        future = pool.submit(train, epochs, dropout, steps_optimizer, in_closure, validates, with_gradients)
        return Training(Connection(ends[0]), tmp_path, future)

    yield start
    for keeper in keepers:
        keeper.hooks.remove()
        keeper.epoch.steps = []  # or it would report them as this process ends
    with suppress(OSError):  # the test has closed it
        ends[0].shutdown(socket.SHUT_RDWR)  # or else a training waits for it
    pool.shutdown()
    for end in ends:
        end.close()


def test_epochs_samples_and_batches_from_memory(start: Start) -> None:
    judge, folder, _ = start()
    assert judge.receive() == EpochBegan()
    assert judge.receive() == EpochEnded()
    first = judge.receive()
    assert (first.finished, first.steps, first.from_memory, first.replaced_clocks) == (True, 3, 0, ("sleep",))
    assert first.phases.keys() == set(Phase)
    assert first.phases[Phase.DATA_WAIT] > 0

    judge.send(Recompute([first.sample]))
    found = judge.receive()
    assert found.error is None
    assert found.loss == pytest.approx(found.recorded_loss)
    assert found.gradient_error < 1e-4
    assert max(found.gradient_errors) < ROUNDING
    assert found.step_error < STEP_TOLERANCE
    assert found.state_error < STATE_TOLERANCE

    judge.send(Proceed(keep_batches=True))
    assert judge.receive() == EpochEnded()
    assert judge.receive().sample is None
    judge.send(Proceed(from_memory=True))
    assert judge.receive() == EpochEnded()
    assert judge.receive().from_memory == 3
    ledger = Ledger.of(folder)
    judge.send(Proceed())
    assert [len(forward.targets or ()) for forward in ledger.forwards] == [4, 4, 2] * 3
    assert sorted(target for forward in ledger.forwards[:3] for target in forward.targets or ()) == list(range(ITEMS))
    assert len({step.parameter for step in ledger.steps}) == 9, "each step moves the parameters"
    assert ledger.model
    [group] = ledger.steps[-1].groups
    assert (group.optimizer, group.tensors, group.settings["lr"]) == ("AdamW", 2, 0.01)
    assert len(ledger.copies) == 9
    judge.close()


def test_a_step_that_chance_has_a_part_in_comes_out_the_same_too(start: Start) -> None:
    judge, _, _ = start(epochs=1, dropout=0.5)
    [_, _, report] = [judge.receive() for _ in range(3)]
    judge.send(Recompute([report.sample]))
    assert judge.receive().gradient_error < 1e-4
    judge.send(Recompute([f"{report.sample}.gone"]))
    assert judge.receive().error.startswith("FileNotFoundError: ")
    judge.send(Proceed())


def test_the_first_step_is_recorded_when_a_closure_takes_it(start: Start) -> None:
    """The optimizer is at work before the model has ever been called."""
    judge, folder, _ = start(epochs=1, in_closure=True, sample_step=0)
    [_, _, report] = [judge.receive() for _ in range(3)]
    judge.send(Recompute([report.sample]))
    found = judge.receive()
    assert (found.error, found.gradient_error < 1e-4, found.step_error < STEP_TOLERANCE) == (None, True, True)
    assert Ledger.of(folder).others == []
    judge.send(Proceed())


def test_a_validation_in_each_step_begins_no_epoch(start: Start) -> None:
    judge, folder, future = start(epochs=2, validates=True)
    for _ in range(2):
        while not isinstance(judge.receive(), EpochEnded):
            pass
        judge.receive()
        judge.send(Proceed())
    future.result()
    ledger = Ledger.of(folder)
    assert (len(ledger.steps), len(ledger.loader_starts), ledger.drops_items) == (6, 2, False)


def test_a_validation_with_gradients_is_no_training(start: Start) -> None:
    judge, folder, future = start(epochs=3, with_gradients=True, sample_step=1)
    samples = []
    for _ in range(3):
        while not isinstance(judge.receive(), EpochEnded):
            pass
        samples.append(judge.receive().sample)
        if len(samples) == 2:  # the loop comes to its validation before it takes the step
            judge.send(Recompute([samples[0]]))
            found = judge.receive()
            assert (found.error, found.gradient_error < 1e-4, found.step_error < STEP_TOLERANCE) == (None, True, True)
        judge.send(Proceed(sample_step=1))
    future.result()
    ledger = Ledger.of(folder)
    assert len(ledger.loader_starts) == 3
    assert [[each.shape[0] for each in step.forwards] for step in ledger.steps] == [[4], [4], [2]] * 3
    assert sorted(target for step in ledger.steps[:3] for each in step.forwards for target in each.targets) == [
        *range(ITEMS)
    ]
    assert sum(step.without_gradients for step in ledger.steps) == 2 * ITEMS


def test_an_epoch_that_is_cut_says_how_long_the_whole_one_is(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpochLength, "_is_enough", lambda _, steps: steps == 2)
    judge, _, _ = start(epochs=2)
    assert [judge.receive() for _ in range(3)][-1].whole_steps == 3
    judge.send(Proceed())
    assert [judge.receive() for _ in range(2)][-1].whole_steps == 3, "it is of two epochs"
    judge.send(Proceed())
    assert [judge.receive() for _ in range(2)][-1].steps == 2


def test_a_loader_that_drops_some_items() -> None:
    data = TensorDataset(torch.arange(10))
    drops = [
        _drops_items(DataLoader(data, batch, drop_last=drop)) for batch, drop in ((4, True), (5, True), (4, False))
    ]
    assert drops == [True, False, False]


def test_a_training_that_never_steps_its_optimizer_is_cut_off(start: Start) -> None:
    judge, _, _ = start(epochs=100, steps_optimizer=False)
    assert judge.receive() == EpochBegan()
    assert judge.receive() == EpochEnded()
    report = judge.receive()
    assert (report.finished, report.steps) == (False, 0)
    judge.send(Recompute(["no.pt"]))
    assert judge.receive().error == "this script's own step was not seen whole"
    judge.send(Proceed())
    assert judge.receive() == EpochEnded()
    judge.receive()
    judge.send(Proceed())


def test_an_item_with_many_targets_has_one_value() -> None:
    words = torch.tensor([[1, 2, 0], [2, 1, 0], [1, 2, 3]])
    values = values_of_items(words, 3)
    assert len(values) == len(set(values)) == 3
    assert values_of_items(words[:, :, None].float(), 3) == values, "of any type and shape"
    assert values_of_items(words, 1) == tuple(words.flatten().tolist()), "the words are the items"
    pictures = torch.rand(4, 64, 64)
    assert len(set(values_of_items(pictures, 4))) == 4
    assert values_of_items(torch.tensor([[1.5], [2.5]]), 2) == (1.5, 2.5)
