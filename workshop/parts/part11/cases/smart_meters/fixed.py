"""Forecasts the next six hours of a household's electricity use with a GRU."""

import csv
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON = 96, 12
COLUMNS = ("kwh", "outside_temp", "is_weekend")


def make_households(folder, count=40, days=28):
    """Writes one CSV file of half-hourly readings for each household."""
    for house in range(count):
        rng = np.random.default_rng(house)
        t = np.arange(48 * days)
        temperature = 9 + 6 * np.sin(t / 48 * 2 * np.pi) + rng.normal(0, 0.5, len(t))
        weekend = ((t // 48) % 7 >= 5).astype(int)
        load = 0.3 + rng.gamma(2, 0.1, len(t)) + 0.5 * (np.sin(t / 24 * np.pi + house) > 0.4) * (1 + 0.4 * weekend)
        with open(folder / f"house_{house:03d}.csv", "w", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(["slot", *COLUMNS])
            writer.writerows(zip(t, load.round(4), temperature.round(2), weekend, strict=True))


class Windows(Dataset):
    """A random stretch of a household's readings: what was, and what came then."""

    def __init__(self, folder, per_house=20):
        self.files = sorted(folder.glob("house_*.csv"))
        self.houses = [self.read(file) for file in self.files]
        self.per_house = per_house

    def __len__(self):
        return len(self.files) * self.per_house

    def __getitem__(self, index):
        readings = self.houses[index // self.per_house]
        start = random.randrange(len(readings) - HISTORY - HORIZON)
        window = readings[start : start + HISTORY + HORIZON]
        return window[:HISTORY], window[HISTORY:, 0]

    @staticmethod
    def read(path):
        return torch.from_numpy(np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(1, 2, 3), dtype=np.float32))


class Forecaster(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.gru = nn.GRU(len(COLUMNS), hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.GELU(), nn.Linear(64, HORIZON))

    def forward(self, x):
        _, last = self.gru(x)
        return self.head(last[0])


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = optim.Adam(model.parameters(), lr=lr)
        self.schedule = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.99)
        self.loss = nn.HuberLoss()

    def epoch(self, loader):
        total = 0.0
        for history, future in loader:
            self.optimizer.zero_grad()
            loss = self.loss(self.model(history), future)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.schedule.step()
        return total / len(loader)

    def fit(self, loader, epochs):
        for n in range(epochs):
            print(f"{n:4d}  huber {self.epoch(loader):.4f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="meters-") as tmp:
        make_households(Path(tmp))
        Trainer(Forecaster(), lr=1e-3).fit(DataLoader(Windows(Path(tmp)), batch_size=16, shuffle=True), epochs=3000)
