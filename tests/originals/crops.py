"""Smooth curves of five kinds: a crop of each at some place, with noise, drawn by a generator of the dataset's own."""

import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LONG, SHORT = 400, 40


class Crops(Dataset):
    def __init__(self):
        make = np.random.default_rng(3)
        pitch = 8 + 4 * (np.arange(160) % 5) + make.normal(size=160)
        along = np.arange(LONG) / LONG
        self.curves = np.sin(pitch[:, None] * along + make.uniform(0, 6.28, (160, 1))) * np.exp(-along)
        self.dice = np.random.default_rng()

    def __len__(self):
        return len(self.curves)

    def __getitem__(self, index):
        time.sleep(0.002)
        place = self.dice.integers(LONG - SHORT)
        crop = self.curves[index, place : place + SHORT] + 0.05 * self.dice.standard_normal(SHORT)
        return torch.tensor(crop, dtype=torch.float32), index % 5


def main():
    crops = Crops()
    loader = DataLoader(crops, 10, shuffle=True)
    model = nn.Sequential(nn.Linear(SHORT, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
