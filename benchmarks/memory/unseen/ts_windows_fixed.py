"""Forecasting of many noisy seasonal series from sliding windows."""

import math

import torch
import torch.nn as nn


class Windows:
    def __init__(self, series, length, horizon):
        self.length, self.horizon = length, horizon
        self.windows = series.unfold(1, length + horizon, 1)

    def __len__(self):
        return self.windows.shape[0] * self.windows.shape[1]

    def batch(self, idx):
        per = self.windows.shape[1]
        w = self.windows[idx // per, idx % per]
        return w[:, : self.length], w[:, self.length :]


def make_series(n, t, seed):
    g = torch.Generator().manual_seed(seed)
    phase = torch.rand(n, 1, generator=g) * 2 * math.pi
    period = 20 + 60 * torch.rand(n, 1, generator=g)
    time = torch.arange(t)[None].float()
    return torch.sin(2 * math.pi * time / period + phase) + 0.1 * torch.randn(n, t, generator=g)


class Forecaster(nn.Module):
    def __init__(self, length, horizon):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU()
        )
        self.fc = nn.Linear(32 * (length // 4), horizon)

    def forward(self, x):
        return self.fc(self.conv(x[:, None]).flatten(1))


def main():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    ds = Windows(make_series(40, 3000, 1), length=192, horizon=24)
    model = Forecaster(192, 24)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2000, 0.5)
    avg = None
    for step in range(10**6):
        x, y = ds.batch(torch.randint(0, len(ds), (256,)))
        loss = (model(x) - y).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        avg = loss.item() if avg is None else 0.98 * avg + 0.02 * loss.item()
        if step < 3:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        elif step % 100 == 0:
            print(f"step {step} mae {avg:.4f} lr {sched.get_last_lr()[0]:.1e}", flush=True)


if __name__ == "__main__":
    main()
