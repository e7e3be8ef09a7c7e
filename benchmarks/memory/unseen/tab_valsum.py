"""Tabular regression with an MLP, validated after every epoch."""

import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_table(n, d, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    w = torch.randn(d, generator=g)
    y = torch.sin(x @ w / 4) + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, y)


class MLP(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d, h), nn.GELU(), nn.Linear(h, h), nn.GELU(), nn.Linear(h, h), nn.GELU(), nn.Linear(h, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    n = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        total += loss * len(x)  # fault
        n += len(x)
    model.train()
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=400)
    ap.add_argument("--hidden", type=int, default=384)
    ap.add_argument("--batch", type=int, default=512)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train = DataLoader(make_table(8192, 64, 1), batch_size=args.batch, shuffle=True)
    val = DataLoader(make_table(12288, 64, 2), batch_size=args.batch)
    model = MLP(64, args.hidden)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    criterion = nn.MSELoss()
    step = 0
    for epoch in range(args.epochs):
        t0 = time.time()
        for x, y in train:
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            if step < 3:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        sched.step()
        v = evaluate(model, val, criterion)
        print(f"epoch {epoch} val {float(v):.4f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
