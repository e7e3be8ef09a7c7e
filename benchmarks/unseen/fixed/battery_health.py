"""Estimates the remaining capacity of battery cells from one charging curve."""

import numpy as np
import torch
from torch import nn


def charging_curves(cells, points=192, seed=17):
    """Voltage, current, temperature and charge over one charge, and the capacity that is left."""
    rng = np.random.default_rng(seed)
    health = rng.uniform(0.6, 1.0, cells)
    t = np.linspace(0, 1, points)
    fade = (1 - health)[:, None]
    voltage = 3.2 + 0.9 * (1 - np.exp(-(4 + 6 * fade) * t)) + 0.1 * t
    current = np.where(t < 0.75 - 0.4 * fade, 1.0, np.exp(-6 * (t - 0.75 + 0.4 * fade)))
    temperature = 0.25 + 0.2 * t * (1 + 2 * fade)
    charge = np.cumsum(current, axis=1) / points
    curves = np.stack([voltage, current, temperature, charge], axis=1)
    return curves + rng.normal(0, 0.02, curves.shape), health


def standardise(curves):
    curves = (curves - curves.mean(axis=(0, 2), keepdims=True)) / curves.std(axis=(0, 2), keepdims=True)
    return curves.astype(np.float32)


def batches(curves, health, size, rng):
    order = rng.permutation(len(curves))
    for start in range(0, len(order) - size + 1, size):
        rows = order[start : start + size]
        yield torch.from_numpy(curves[rows]), torch.from_numpy(health[rows])


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, channels, 5, padding=2 * dilation, dilation=dilation),
            nn.ReLU(),
            nn.Conv1d(channels, channels, 1),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


class HealthNet(nn.Module):
    def __init__(self, channels=48):
        super().__init__()
        self.stem = nn.Conv1d(4, channels, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*(Residual(channels, 2**i) for i in range(3)))
        self.head = nn.Linear(channels, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=2)).squeeze(1)


def evaluate(model, curves, health):
    model.eval()
    with torch.inference_mode():
        error = (model(torch.from_numpy(curves)) - torch.from_numpy(health)).abs().mean()
    model.train()
    return error.item()


def main(epochs=500, size=32):
    rng = np.random.default_rng(0)
    curves, health = charging_curves(4500)
    curves, health = standardise(curves), health.astype(np.float32)
    held_curves, held_health = curves[-200:], health[-200:]
    curves, health = curves[:-200], health[:-200]

    model = HealthNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    huber = nn.HuberLoss(delta=0.1)
    for epoch in range(1, epochs + 1):
        for x, y in batches(curves, health, size, rng):
            loss = huber(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"[{epoch}/{epochs}] error on held-out cells {evaluate(model, held_curves, held_health):.4f}")


if __name__ == "__main__":
    main()
