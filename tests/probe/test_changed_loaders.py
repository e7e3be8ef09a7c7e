"""Other numbers of workers for the DataLoaders of a training that is under way."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from workshop.probe.hooks import Listener, TrainingHooks


class WhoLoads(Dataset[torch.Tensor]):
    """Each item is the number of the process that has loaded it."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, os.getpid(), torch.get_num_threads()])


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.tensor([0, os.getpid(), 0])


class Batches(Listener):
    """Counts what is handed out."""

    def __init__(self) -> None:
        self.count = 0

    def on_batch(self, batch: Any) -> None:
        self.count += 1


@pytest.fixture
def heard() -> Batches:
    return Batches()


@pytest.fixture
def hooks(heard: Batches) -> Iterator[TrainingHooks]:
    """Hooks, which are removed in the end."""
    hooks = TrainingHooks(heard)
    hooks.install()
    yield hooks
    hooks.loaders.load_with(None)
    hooks.remove()


def loaded_by(batch: torch.Tensor) -> set[int]:
    return set(batch[:, 1].tolist())


def test_an_epoch_that_has_begun_goes_on_with_other_workers(hooks: TrainingHooks, heard: Batches) -> None:
    batches = iter(DataLoader(WhoLoads(), batch_size=2))
    assert loaded_by(next(batches)) == {os.getpid()}
    hooks.loaders.load_with(2)
    others = [loaded_by(next(batches)) for _ in range(2)]
    assert os.getpid() not in set.union(*others)
    with pytest.raises(StopIteration):
        next(batches)
    assert heard.count == 3


def test_an_epoch_has_its_length_and_its_workers_stay(hooks: TrainingHooks) -> None:
    hooks.loaders.load_with(1)
    loader = DataLoader(WhoLoads(), batch_size=2, num_workers=2)
    epochs = [[loaded_by(batch) for batch in loader] for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [3, 3, 3]
    assert len(set.union(*(pids for epoch in epochs for pids in epoch))) == 1


def test_workers_have_one_thread(hooks: TrainingHooks) -> None:
    hooks.loaders.load_with(1)
    loader = DataLoader(WhoLoads(), batch_size=6, num_workers=1, worker_init_fn=lambda _: torch.set_num_threads(2))
    assert {int(threads) for batch in loader for threads in batch[:, 2]} == {1}


def test_without_workers_what_only_workers_may_have_is_left_out(hooks: TrainingHooks) -> None:
    hooks.loaders.load_with(0)
    loader = DataLoader(WhoLoads(), batch_size=3, num_workers=1, prefetch_factor=4, timeout=30, persistent_workers=True)
    assert [loaded_by(batch) for batch in loader] == [{os.getpid()}] * 2


def test_afterwards_all_is_as_before(hooks: TrainingHooks) -> None:
    """The epoch that began in the trial ends with it."""
    loader = DataLoader(WhoLoads(), batch_size=1)
    hooks.loaders.load_with(1)
    batches = iter(loader)
    next(batches)
    hooks.loaders.load_with(None)
    assert list(batches) == []
    assert [loaded_by(batch) for batch in loader] == [{os.getpid()}] * 6


def test_a_validation_is_left_alone(hooks: TrainingHooks) -> None:
    hooks.loaders.load_with(1)
    with torch.no_grad():
        assert [loaded_by(batch) for batch in DataLoader(WhoLoads(), batch_size=6)] == [{os.getpid()}]


def test_a_dataset_without_length(hooks: TrainingHooks) -> None:
    hooks.loaders.load_with(1)
    batches = iter(DataLoader(Endless(), batch_size=4))
    assert os.getpid() not in loaded_by(next(batches))
