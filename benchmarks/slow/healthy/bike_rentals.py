"""Forecast bike rentals at each station from the last day, with a line in a CSV file for every step."""

import csv
import tempfile
import time

import torch
from torch import nn


class Rentals(nn.Module):
    def __init__(self, stations, width=96):
        super().__init__()
        self.station = nn.Embedding(stations, 16)
        self.gru = nn.GRU(6, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width + 16, 64), nn.ReLU(), nn.Linear(64, 6))

    def forward(self, past, station):
        _, last = self.gru(past)
        return self.head(torch.cat([last[0], self.station(station)], dim=1))


def city(stations, hours):
    t = torch.arange(hours).float()
    rush = torch.exp(-(((t % 24) - 8) ** 2) / 4) + torch.exp(-(((t % 24) - 17) ** 2) / 6)
    rain = (torch.rand(hours) < 0.1).float()
    level = torch.rand(stations, 1) * 3
    demand = level * rush * (1 - 0.6 * rain) + 0.1 * torch.randn(stations, hours)
    clock = torch.stack(
        [torch.sin(t * 0.2618), torch.cos(t * 0.2618), torch.sin(t * 0.0374), torch.cos(t * 0.0374), rain]
    )
    return torch.cat([demand[..., None], clock.t().expand(stations, -1, -1)], dim=2)


def main(stations=80, hours=6000, batch=128, history=48):
    torch.manual_seed(0)
    data = city(stations, hours)
    model = Rentals(stations)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    window = torch.arange(history + 6)
    began = time.time()
    with tempfile.NamedTemporaryFile("w", prefix="bikes_", suffix=".csv", delete=False) as file:
        log = csv.writer(file)
        log.writerow(["step", "seconds", "loss"])
        for step in range(10**7):
            station = torch.randint(0, stations, (batch,))
            start = torch.randint(0, hours - history - 6, (batch, 1))
            rows = data[station[:, None], start + window]
            forecast = model(rows[:, :history], station)
            loss = nn.functional.smooth_l1_loss(forecast, rows[:, history:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.writerow([step, f"{time.time() - began:.2f}", f"{loss.item():.5f}"])


if __name__ == "__main__":
    main()
