"""Finds the glacier on radar tiles with a U-Net; the tiles are read from disk by one worker."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler


def make_tiles(folder, count=120, side=96):
    rng = np.random.default_rng(17)
    y, x = np.mgrid[:side, :side] / side
    for n in range(count):
        edge = 0.5 + 0.15 * np.sin(2 * np.pi * (x * rng.uniform(0.5, 2) + rng.random())) + 0.1 * rng.normal()
        ice = y > edge
        tile = np.stack([0.5 * ice + rng.gamma(2, 0.2, ice.shape) for _ in range(2)])
        np.savez(folder / f"tile{n:03d}.npz", tile=tile.astype(np.float32), ice=ice)


class Tiles(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.npz"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, n):
        with np.load(self.files[n]) as f:
            tile, ice = f["tile"], f["ice"].astype(np.float32)
        if n % 2:
            tile, ice = tile[:, :, ::-1].copy(), ice[:, ::-1].copy()
        return torch.from_numpy(tile), torch.from_numpy(ice)


class Double(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
        )


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList(Double(a, b) for a, b in itertools.pairwise((2, *widths)))
        self.up = nn.ModuleList(Double(a + b, a) for a, b in itertools.pairwise(widths))
        self.last = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = layer(F.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        skips.pop()
        for layer in reversed(self.up):
            x = layer(torch.cat([skips.pop(), F.interpolate(x, scale_factor=2)], 1))
        return self.last(x).squeeze(1)


def main(steps=30_000):
    with tempfile.TemporaryDirectory(prefix="glacier") as folder:
        make_tiles(Path(folder))
        tiles = Tiles(Path(folder))
        sampler = RandomSampler(tiles, replacement=True, num_samples=6 * steps)
        loader = DataLoader(tiles, batch_size=6, sampler=sampler, num_workers=1)
        net = UNet()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        for step, (tile, ice) in enumerate(loader, start=1):
            logit = net(tile)
            loss = F.binary_cross_entropy_with_logits(logit, ice)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                overlap = ((logit > 0) & (ice > 0.5)).sum() / ((logit > 0) | (ice > 0.5)).sum().clamp(min=1)
                print(f"step {step}: loss {loss.item():.3f}, overlap {overlap.item():.3f}")


if __name__ == "__main__":
    main()
