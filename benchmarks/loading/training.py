"""What the scripts of this folder have in common: a small network, and a loop over epochs."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


def network(inputs: int, hidden: int = 64) -> nn.Module:
    """Return a network of two layers with four outputs."""
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 4))


def train(loader: Iterable[Any], model: nn.Module, epochs: int = 1000, passes: int = 1) -> None:
    """Train for some epochs, with several passes a batch."""
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for x, y in loader:
            for _ in range(passes):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
            optimizer.step()
