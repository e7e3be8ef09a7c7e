"""Batches that are taken out of tensors in memory at once are those that are put together from single samples."""

from collections.abc import Iterable, Sequence

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Subset, TensorDataset, default_collate

from workshop.probe.loader_epochs import without_iterator
from workshop.probe.whole_batches import singles_of, take_at_once

NUMBERS = TensorDataset(torch.arange(40).reshape(20, 2), torch.arange(20.0))


class Rows(Dataset[torch.Tensor]):
    """As scripts have them."""

    def __init__(self) -> None:
        self.rows = torch.arange(40).reshape(20, 2).numpy()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor]:
        return (torch.from_numpy(self.rows[index]),)


class Listed(Dataset[int]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        raise AssertionError("nobody asks a dataset of the script for anything")


def epoch(loader: Iterable[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [leaf for batch in loader for leaf in batch]


@pytest.mark.parametrize("dataset", [NUMBERS, Subset(Subset(NUMBERS, range(2, 20)), range(3, 15)), Rows()])
def test_they_are_the_same(dataset: Dataset[tuple[torch.Tensor, ...]]) -> None:
    loader = DataLoader(dataset, 8, shuffle=True)
    assert singles_of(loader) == 8
    whole = without_iterator(loader)
    take_at_once(whole)
    assert all(map(torch.equal, epoch(loader), epoch(whole)))
    assert loader.dataset is dataset
    advised = DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), 8, drop_last=False))
    assert all(map(torch.equal, epoch(loader), epoch(advised))), "what is advised is the same work"


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Listed(), 8),
        DataLoader(NUMBERS, 1),
        DataLoader(NUMBERS, batch_size=None),
    ],
)
def test_where_it_is_not_tried(loader: DataLoader[object]) -> None:
    assert singles_of(loader) == 0


def test_another_batch_is_noticed() -> None:
    whole = DataLoader(NUMBERS, 8, collate_fn=lambda items: default_collate(items)[:1])
    take_at_once(whole)
    with pytest.raises(ValueError, match="another one"):
        next(iter(whole))
