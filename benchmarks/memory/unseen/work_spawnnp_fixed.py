"""Activity recognition from accelerometer windows, loader with spawned workers."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def recordings(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 6, n)
    t = np.arange(128, dtype=np.float32)
    x = rng.standard_normal((n, 6, 128), dtype=np.float32)
    x += np.sin(t * (0.1 + 0.05 * y)[:, None, None]).astype(np.float32)
    return x, y


class Accelerometer(Dataset):
    def __init__(self, n, seed=0):
        x, y = recordings(n, seed)
        self.x = torch.from_numpy(x).share_memory_()
        self.y = torch.from_numpy(y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        w = self.x[i]
        return (w - w.mean(1, keepdim=True)) / w.std(1, keepdim=True), self.y[i]


class ConvNet(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(6, c, 7, padding=3),
            nn.BatchNorm1d(c),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(c, c, 5, padding=2),
            nn.BatchNorm1d(c),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
        )
        self.head = nn.Linear(c, 6)

    def forward(self, x):
        return self.head(self.features(x).squeeze(-1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ds = Accelerometer(24000)
    loader = DataLoader(
        ds,
        batch_size=96,
        shuffle=True,
        num_workers=2,
        drop_last=True,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    net = ConvNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)
    step = 0
    for epoch in range(100):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        sched.step()


if __name__ == "__main__":
    main()
