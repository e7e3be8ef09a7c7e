"""A dataset that workers of every kind can import: those that are spawned cannot import a test."""

import torch
from torch.utils.data import Dataset


class NumberedItems(Dataset[tuple[torch.Tensor, int]]):
    """Items that can be told apart, and a list of those that were asked for."""

    def __init__(self, length: int = 20, side: int = 8) -> None:
        self.length, self.side = length, side
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.asked.append(index)
        return picture(index, self.side), index


def picture(index: int, side: int = 8) -> torch.Tensor:
    """The picture of an item."""
    return torch.full((3, side, side), index % 251, dtype=torch.uint8)
