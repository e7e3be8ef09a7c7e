"""Chirp-rate regression; samples are synthesised on the fly in spawned workers."""

import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Chirps(IterableDataset):
    def __init__(self, per_epoch, length=1024):
        self.per_epoch, self.length = per_epoch, length
        self.epoch = 0

    def __iter__(self):
        info = get_worker_info()
        share = self.per_epoch // info.num_workers
        g = torch.Generator().manual_seed(1 + info.id)
        t = torch.linspace(0, 1, self.length)
        for _ in range(share):
            rate, f0, ph = torch.rand(3, generator=g)
            phase = 2 * math.pi * ((10 + 20 * f0) * t + 30 * rate * t**2) + 6.28 * ph
            yield torch.sin(phase) + 0.2 * torch.randn(self.length, generator=g), rate


class ChirpNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        layers, i = [], 1
        for o in (c, c, 2 * c):
            layers += [nn.Conv1d(i, o, 7, stride=2, padding=3), nn.BatchNorm1d(o), nn.ReLU()]
            i = o
        self.conv = nn.Sequential(*layers)
        self.fc = nn.Linear(2 * c, 1)

    def forward(self, x):
        return self.fc(self.conv(x[:, None]).amax(-1)).squeeze(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(
        Chirps(8000),
        batch_size=64,
        num_workers=2,
        prefetch_factor=2,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    net = ChirpNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best, best_state, step = float("inf"), None, 0
    for epoch in range(300):
        total = count = 0
        for x, y in loader:
            loss = nn.functional.l1_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, count = total + loss.item(), count + 1
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        if total / count < best:
            best = total / count
            best_state = {k: v.clone() for k, v in net.state_dict().items()}
        print(f"epoch {epoch} mae {total / count:.4f} best {best:.4f} ({len(best_state)} tensors)", flush=True)


if __name__ == "__main__":
    main()
