"""Robust regression on sensor data with outlier batches that are skipped."""

import torch
import torch.nn as nn


class BadBatch(RuntimeError):
    pass


def sensor_batch(step, n=1024, d=48):
    g = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(n, d, generator=g)
    y = x[:, :3].prod(1) + 0.1 * torch.randn(n, generator=g)
    if step % 3 == 2:
        y = y * 1e4
    return x, y


class Regressor(nn.Module):
    def __init__(self, d=48, h=192):
        super().__init__()
        self.l1 = nn.Linear(d, h)
        self.l2 = nn.Linear(h, h)
        self.l3 = nn.Linear(h, 1)

    def forward(self, x):
        h = torch.tanh(self.l1(x))
        h = h + torch.tanh(self.l2(h))
        return self.l3(h).squeeze(-1)


class Runner:
    def __init__(self):
        self.model = Regressor()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3)
        self.skipped = []
        self.good = 0

    def compute(self, step):
        x, y = sensor_batch(step)
        pred = self.model(x)
        loss = nn.functional.huber_loss(pred, y)
        if not torch.isfinite(loss) or loss.item() > 100:
            raise BadBatch(f"step {step}: loss {loss.item():.1f}")
        return loss

    def run(self, steps):
        for step in range(steps):
            try:
                loss = self.compute(step)
            except BadBatch as err:
                self.skipped.append(err)  # fault
                continue
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if self.good < 3 or self.good % 100 == 0:
                last = self.skipped[-1] if self.skipped else "-"
                print(f"step {self.good} loss {loss.item():.5f} skipped {len(self.skipped)} last: {last}", flush=True)
            self.good += 1


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    Runner().run(10**7)
