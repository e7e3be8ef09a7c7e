"""Classes of rows, always the same, in mixed precision: again and again the scale grows until the loss overflows."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(3)
        self.rows = torch.randn(120, 24, generator=dice)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.rows[index], index % 3


def main():
    loader = DataLoader(Rows(), 8, shuffle=True)
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=5)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu"):
                loss = 100 * nn.functional.cross_entropy(model(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


if __name__ == "__main__":
    main()
