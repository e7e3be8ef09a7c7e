"""Day-ahead electricity load forecasting with an autoregressive LSTM."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler


def household_load(n_series=24, hours=24 * 60, seed=9):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    phase = rng.uniform(0, 2 * np.pi, (n_series, 1))
    daily = np.sin(2 * np.pi * t / 24 + phase)
    weekly = 0.4 * np.sin(2 * np.pi * t / 168 + phase)
    noise = 0.2 * rng.normal(size=(n_series, hours))
    load = daily + weekly + noise
    calendar = np.stack(
        [
            np.sin(2 * np.pi * t / 24),
            np.cos(2 * np.pi * t / 24),
            np.sin(2 * np.pi * t / 168),
            np.cos(2 * np.pi * t / 168),
        ],
        1,
    )
    return torch.tensor(load, dtype=torch.float32), torch.tensor(calendar, dtype=torch.float32)


class Windows(Dataset):
    def __init__(self, load, calendar, history, horizon):
        self.load, self.calendar = load, calendar
        self.history, self.horizon = history, horizon
        self.per_series = load.size(1) - history - horizon

    def __len__(self):
        return self.load.size(0) * self.per_series

    def __getitem__(self, i):
        s, t = divmod(i, self.per_series)
        mid, end = t + self.history, t + self.history + self.horizon
        past = torch.cat([self.load[s, t:mid, None], self.calendar[t:mid]], 1)
        return past, self.calendar[mid:end], self.load[s, mid:end]


class LoadForecaster(nn.Module):
    def __init__(self, n_feat=5, hidden=64, layers=1):
        super().__init__()
        self.lstm = nn.LSTM(n_feat, hidden, layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, past, future_cal):
        preds = []
        inputs = past
        for h in range(future_cal.size(1)):
            out, _ = self.lstm(inputs)
            y = self.head(out[:, -1])
            preds.append(y)
            step = torch.cat([y, future_cal[:, h]], dim=1).unsqueeze(1)
            inputs = torch.cat([inputs, step], dim=1)
        return torch.cat(preds, dim=1)


def run_epoch(model, loader, criterion, optimizer):
    model.train()
    total = 0.0
    for past, future_cal, target in loader:
        optimizer.zero_grad()
        pred = model(past, future_cal)
        loss = criterion(pred, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, default=72)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1000)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(0)
    load, calendar = household_load()
    data = Windows(load, calendar, args.history, args.horizon)
    sampler = RandomSampler(data, num_samples=20 * args.batch_size)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = LoadForecaster(hidden=args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=10)
    criterion = nn.SmoothL1Loss()
    for epoch in range(args.epochs):
        begin = time.time()
        loss = run_epoch(model, loader, criterion, optimizer)
        scheduler.step(loss)
        print(
            f"Epoch {epoch:03d}: loss={loss:.4f} lr={optimizer.param_groups[0]['lr']:.1e} "
            f"took {time.time() - begin:.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    main()
