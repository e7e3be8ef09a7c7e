"""A step for three batches, of eight in an epoch, in half precision: the scale is far too large, and grows again."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EVERY = 3


class Rows(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(3)
        self.rows = torch.randn(60, 24, generator=dice)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.rows[index], index % 3


def main():
    loader = DataLoader(Rows(), 8, shuffle=True)
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-9, growth_interval=5)
    while True:
        for number, (inputs, targets) in enumerate(loader, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(inputs), targets)
            scaler.scale(loss / EVERY).backward()
            if number % EVERY == 0 or number == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
