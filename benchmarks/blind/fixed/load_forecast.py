"""Day-ahead electricity load forecasting from hourly history with a GRU."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

HISTORY = 96
HORIZON = 24


def hourly_table(hours=8760, seed=11):
    """Columns: load, temperature, wind, solar, price, hour_sin, hour_cos, weekday."""
    rng = np.random.default_rng(seed)
    h = np.arange(hours)
    day, year = 2 * np.pi * h / 24, 2 * np.pi * h / 8760
    temperature = 10 - 9 * np.cos(year) - 4 * np.cos(day) + rng.normal(0, 1.5, hours)
    wind = np.abs(np.cumsum(rng.normal(0, 0.3, hours)) % 12)
    solar = np.maximum(0, -np.cos(day)) * (1 - 0.6 * np.cos(year)) * rng.uniform(0.4, 1, hours)
    weekday = (h // 24) % 7
    load = (
        40
        + 8 * np.sin(day - 1.9)
        + 5 * np.cos(year)
        - 4 * (weekday > 4)
        - 0.2 * temperature
        + rng.normal(0, 0.8, hours)
    )
    price = 0.8 * load - wind - 3 * solar + rng.normal(0, 2, hours)
    columns = [load, temperature, wind, solar, price, np.sin(day), np.cos(day), weekday]
    return np.stack(columns, axis=1).astype(np.float32)


class LoadWindows(Dataset):
    def __init__(self, table, stride=6):
        self.table = table
        self.scaled = self.normalized()
        self.starts = np.arange(0, len(table) - HISTORY - HORIZON, stride)

    def normalized(self):
        mean = self.table.mean(axis=0)
        std = self.table.std(axis=0)
        return (self.table - mean) / (std + 1e-6)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        start = self.starts[index]
        window = self.scaled[start : start + HISTORY + HORIZON]
        past = window[:HISTORY]
        known = window[HISTORY:, 5:]
        target = window[HISTORY:, 0]
        return past.copy(), known.copy(), target.copy()


class Forecaster(nn.Module):
    def __init__(self, features=8, known=3, hidden=64):
        super().__init__()
        self.encoder = nn.GRU(features, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.decoder = nn.GRU(known, hidden, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 3))

    def forward(self, past, known):
        _, state = self.encoder(past)
        out, _ = self.decoder(known, state)
        return self.head(out)


def pinball(pred, target, quantiles=(0.1, 0.5, 0.9)):
    q = torch.tensor(quantiles)
    err = target.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


class Trainer:
    def __init__(self, epochs=1000, batch_size=32):
        self.epochs = epochs
        windows = LoadWindows(hourly_table())
        cut = int(0.95 * len(windows))
        self.train_loader = DataLoader(Subset(windows, range(cut)), batch_size, shuffle=True)
        self.val_loader = DataLoader(Subset(windows, range(cut, len(windows))), batch_size)
        self.model = Forecaster()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def run(self):
        for epoch in range(self.epochs):
            self.model.train()
            train = [self.step(*batch) for batch in self.train_loader]
            self.model.eval()
            with torch.no_grad():
                val = [pinball(self.model(p, k), y).item() for p, k, y in self.val_loader]
            print(f"epoch {epoch:4d} train {np.mean(train):.4f} val {np.mean(val):.4f}", flush=True)

    def step(self, past, known, target):
        self.optimizer.zero_grad()
        loss = pinball(self.model(past, known), target)
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(11)
    Trainer().run()
