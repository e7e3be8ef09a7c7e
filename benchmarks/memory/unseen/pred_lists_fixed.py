"""Multi-output regression on tables; per-sample predictions are kept for a calibration plot."""

import random
from collections import deque

import torch
import torch.nn as nn


class PredictionLog:
    """Predictions and targets of the newest epoch's samples."""

    def __init__(self):
        self.entries = deque(maxlen=2000)

    def add(self, epoch, idx, pred, target):
        for i, p, t in zip(idx.tolist(), pred.tolist(), target.tolist()):
            self.entries.append({"epoch": epoch, "id": i, "pred": p, "target": t})

    def calibration(self, epoch):
        rows = [e for e in self.entries if e["epoch"] == epoch]
        err = [abs(a - b) for e in rows for a, b in zip(e["pred"], e["target"])]
        return sum(err) / max(1, len(err))


def table(n, d, outs, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    w = torch.randn(d, outs, generator=g) / d**0.5
    return x, torch.tanh(x @ w) + 0.05 * torch.randn(n, outs, generator=g)


def main():
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = table(4000, 100, 24, 1)
    model = nn.Sequential(nn.Linear(100, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 24))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    log = PredictionLog()
    step = 0
    for epoch in range(5000):
        order = list(range(len(x)))
        random.shuffle(order)
        for k in range(0, len(order), 500):
            idx = torch.tensor(order[k : k + 500])
            pred = model(x[idx])
            loss = nn.functional.mse_loss(pred, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.add(epoch, idx, pred, y[idx])
            if step < 3:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} loss {loss.item():.4f} calib {log.calibration(epoch):.4f}", flush=True)


if __name__ == "__main__":
    main()
