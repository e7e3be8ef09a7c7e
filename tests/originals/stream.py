"""A stream without an end: points near four curves, with the number of the curve."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Points(IterableDataset):
    def __init__(self):
        self.mixed = torch.randn(2, 16, generator=torch.Generator().manual_seed(9))

    def __iter__(self):
        while True:
            time.sleep(0.002)
            kind = int(torch.randint(4, ()))
            along = 3 * torch.rand(()) + kind
            yield torch.stack([along.cos(), along.sin()]) * (1 + 0.3 * kind) @ self.mixed, kind


def main():
    points = Points()
    loader = DataLoader(points, 8)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
