"""Every batch, in order, and one ahead."""

import torch
from torch.utils.data import DataLoader

from solutions.prefetcher import Prefetcher

CPU = torch.device("cpu")


def test_nothing_is_lost_and_the_next_batch_is_fetched_before_the_current_one_is_handed_out() -> None:
    fetched: list[int] = []

    def fetch(numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        fetched.extend(numbers)
        return torch.tensor(numbers), 10 * torch.tensor(numbers)

    prefetcher = Prefetcher(DataLoader(range(3), collate_fn=fetch), CPU)
    assert len(prefetcher) == 3
    for epoch in range(2):
        fetched.clear()
        for number, (images, targets) in enumerate(prefetcher):
            assert (images.item(), targets.item()) == (number, 10 * number)
            assert fetched == list(range(min(number + 2, 3))), epoch
        assert number == 2


def test_an_empty_loader() -> None:
    assert list(Prefetcher([], CPU)) == []
