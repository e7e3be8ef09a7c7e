"""Predict the tide an hour ahead at each hour of a week, from level, wind and pressure."""

import math

import torch
from torch import nn


class TideNet(nn.Module):
    def __init__(self, inputs=5, hidden=48):
        super().__init__()
        self.encode = nn.Linear(inputs, 24)
        self.lstm = nn.LSTM(24, hidden, num_layers=2, batch_first=True)
        self.readout = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, series):
        encoded = torch.relu(self.encode(series))
        outputs, _ = self.lstm(encoded)
        return self.readout(outputs).squeeze(-1)


def harbour(hours, phase):
    t = torch.arange(hours, dtype=torch.float32)
    moon = 1.8 * torch.sin(2 * math.pi * t / 12.42 + phase) + 0.5 * torch.sin(2 * math.pi * t / 12.0)
    wind = torch.cumsum(torch.randn(hours, 2) * 0.1, dim=0)
    wind = wind - wind.mean(0)
    pressure = torch.sin(t / 60 + phase) + 0.1 * torch.randn(hours)
    surge = 0.3 * wind[:, 0] - 0.2 * pressure
    hour = torch.sin(2 * math.pi * t / 24)
    return torch.stack([moon + surge, wind[:, 0], wind[:, 1], pressure, hour], dim=1)


def sample(harbours, batch, length):
    which = torch.randint(0, harbours.size(0), (batch,))
    start = torch.randint(0, harbours.size(1) - length - 1, (batch,))
    rows = start[:, None] + torch.arange(length + 1)
    window = harbours[which[:, None], rows]
    return window[:, :-1], window[:, 1:, 0]


if __name__ == "__main__":
    torch.manual_seed(6)
    harbours = torch.stack([harbour(5000, phase=k * 0.7) for k in range(10)])
    net = TideNet()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    running = None
    for step in range(1, 500_001):
        x, y = sample(harbours, batch=32, length=168)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
        if step % 20 == 0:
            print(f"step {step:6d}   mse {running:.4f}")
