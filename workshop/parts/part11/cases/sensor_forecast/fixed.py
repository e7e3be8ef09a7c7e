"""Forecast two days of twelve factory sensors from the week before, with dilated convolutions.

A dashboard shows the latest forecast, and reads it from forecast.json once a minute.
"""

import argparse
import json
import os

import numpy as np
import torch
from torch import nn


def simulate(hours, sensors, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    daily = np.sin(2 * np.pi * (t / 24 + rng.random(sensors)))
    weekly = np.sin(2 * np.pi * (t / 168 + rng.random(sensors)))
    drift = np.cumsum(rng.normal(0, 0.02, (hours, sensors)), axis=0)
    return torch.tensor(daily + 0.5 * weekly + drift + rng.normal(0, 0.1, (hours, sensors)), dtype=torch.float32)


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(torch.relu(self.conv(x)))


class Forecaster(nn.Module):
    def __init__(self, sensors, horizon, width=48):
        super().__init__()
        self.horizon = horizon
        self.inp = nn.Conv1d(sensors, width, 1)
        self.body = nn.Sequential(*[Residual(width, 2**k) for k in range(5)])
        self.out = nn.Linear(width, sensors * horizon)

    def forward(self, window):
        h = self.body(self.inp(window.transpose(1, 2)))
        return self.out(h[:, :, -1]).view(len(window), self.horizon, -1)


class RunLog:
    """Keeps the state of the run on disk, where the dashboard finds it."""

    path = "forecast.json"

    def update(self, step, loss, forecast, target):
        record = {"step": step, "loss": loss}
        record["forecast"] = forecast.tolist()
        record["target"] = target.tolist()
        with open(self.path + ".part", "w") as handle:
            json.dump(record, handle)
        os.replace(self.path + ".part", self.path)


def main(args):
    torch.manual_seed(args.seed)
    series = simulate(20_000, args.sensors, args.seed)
    model = Forecaster(args.sensors, args.horizon)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.SmoothL1Loss()
    log = RunLog()
    span = torch.arange(args.history + args.horizon)
    for step in range(args.steps):
        starts = torch.randint(0, len(series) - len(span), (args.batch, 1))
        windows = series[starts + span]
        past, future = windows[:, : args.history], windows[:, args.history :]
        forecast = model(past)
        loss = loss_fn(forecast, future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            log.update(step, loss.item(), forecast, future)
        if step % 100 == 0:
            print(f"step {step:6d}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sensors", type=int, default=12)
    parser.add_argument("--history", type=int, default=168)
    parser.add_argument("--horizon", type=int, default=48)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
