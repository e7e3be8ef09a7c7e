"""A table of 3,000 rows of four kinds: too long for an epoch of it to be watched."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(8)
        self.kinds = torch.randint(4, (3000,), generator=dice)
        self.hidden = torch.randn(3000, 2, generator=dice) + 0.3 * self.kinds[:, None]
        self.mixed = torch.randn(2, 24, generator=dice)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        time.sleep(0.002)
        return (self.hidden[index] @ self.mixed).sin(), self.kinds[index]


def main():
    rows = Rows()
    loader = DataLoader(rows, 8, shuffle=True)
    model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
