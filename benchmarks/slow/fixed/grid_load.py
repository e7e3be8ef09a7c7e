"""Forecast the load of an electricity grid for the next day, quarter hour by quarter hour."""

import numpy as np
import torch
from torch import nn


class History:
    def __init__(self, days=1200, stations=40, seed=2):
        rng = np.random.default_rng(seed)
        quarter = np.arange(days * 96)
        day = quarter // 96
        season = np.cos(2 * np.pi * day / 365)
        weekend = (day % 7 >= 5) * 0.3
        shape = np.sin(2 * np.pi * quarter / 96 - 1.2) + 0.4 * np.sin(4 * np.pi * quarter / 96)
        base = rng.uniform(0.5, 2.0, stations)[:, None]
        self.load = base * (1 + 0.3 * shape + 0.2 * season - weekend) + rng.normal(0, 0.05, (stations, days * 96))
        self.load = (self.load - self.load.mean(1, keepdims=True)) / self.load.std(1, keepdims=True)
        self.weather = np.stack([season + rng.normal(0, 0.2, len(day)), np.sin(day / 9.0)])
        self.rng, self.days, self.stations = rng, days, stations

    def batch(self, size, back=4):
        station = self.rng.integers(0, self.stations, size)
        day = self.rng.integers(back, self.days - 1, size)
        past = np.stack([self.load[s, (d - back) * 96 : d * 96] for s, d in zip(station, day, strict=True)])
        future = np.stack([self.load[s, d * 96 : (d + 1) * 96] for s, d in zip(station, day, strict=True)])
        outlook = np.stack([self.weather[:, d * 96 : (d + 1) * 96].ravel() for d in day])
        x = np.concatenate([past, outlook], axis=1)
        return torch.from_numpy(x).float(), torch.from_numpy(future).float()


class LoadModel(nn.Module):
    def __init__(self, inputs, width=768):
        super().__init__()
        self.inp = nn.Linear(inputs, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.out = nn.Linear(width, 3 * 96)

    def forward(self, x):
        h = self.inp(x)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            h = h + torch.relu(layer(norm(h)))
        return self.out(h).view(-1, 3, 96)


def pinball(quantiles, target, levels):
    gap = target[:, None] - quantiles
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


history = History()
levels = torch.tensor([0.1, 0.5, 0.9])[:, None]
model = LoadModel(4 * 96 + 2 * 96)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(1, 1_000_000):
    x, y = history.batch(256)
    loss = pinball(model(x), y, levels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} pinball loss {loss.item():.4f}")
