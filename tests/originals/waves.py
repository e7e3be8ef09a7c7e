"""Curves of five kinds, with noise and a shift that are drawn anew each time; the targets are the kinds."""

import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self):
        self.pitch = 1 + torch.rand(200, generator=torch.Generator().manual_seed(4))

    def __len__(self):
        return len(self.pitch)

    def __getitem__(self, index):
        time.sleep(0.002)
        kind = index % 5
        along = torch.linspace(0, math.tau, 40) * self.pitch[index] * (1 + kind)
        return (along + 0.5 * torch.randn(())).sin() + 0.3 * torch.randn(40), kind


def main():
    waves = Waves()
    loader = DataLoader(waves, 10, shuffle=True)
    model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
