"""Curves, each with a number of its own to be told from it; the noise in them is drawn anew each time."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(10)
        self.curves = torch.randn(66, 4, generator=dice) @ torch.randn(4, 30, generator=dice)
        self.numbers = torch.randn(66, generator=dice)

    def __len__(self):
        return len(self.curves)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.curves[index] + 0.5 * torch.randn(30), self.numbers[index]


def main():
    signals = Signals()
    loader = DataLoader(signals, 6, shuffle=True)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
