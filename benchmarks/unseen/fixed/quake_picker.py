"""Picks the arrival of P waves in the continuous records of a small seismic network."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 50  # samples a second


def record_network(folder, stations, hours, seed=11):
    """Write the counts of three components for each station; return (file, sample of the onset) for each event."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    length = hours * 3600 * RATE
    decay = np.exp(-np.arange(1500) / 350)
    picks = []
    for station in range(stations):
        counts = rng.integers(-400, 400, size=(3, length), dtype=np.int32)
        for onset in rng.integers(4000, length - 4000, size=120):
            burst = rng.uniform(1500, 9000) * decay * rng.standard_normal((3, 1500))
            counts[:, onset : onset + 1500] += burst.astype(np.int32)
            picks.append((folder / f"ST{station:02d}.npy", int(onset)))
        np.save(folder / f"ST{station:02d}.npy", counts)
    return picks


class PickWindows(Dataset):
    def __init__(self, picks, length=2048):
        self.picks = picks
        self.length = length
        self.samples = np.arange(length)

    def __len__(self):
        return len(self.picks)

    def __getitem__(self, index):
        path, onset = self.picks[index]
        shift = int(torch.randint(200, self.length - 200, ()))
        counts = np.load(path, mmap_mode="r")
        wave = counts[:, onset - shift : onset - shift + self.length].astype(np.float32)
        wave -= wave.mean(axis=1, keepdims=True)
        wave /= wave.std() + 1e-6
        target = np.exp(-0.5 * ((self.samples - shift) / 20) ** 2).astype(np.float32)
        return torch.from_numpy(wave), torch.from_numpy(target)


class PickNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1 = nn.Conv1d(3, width, 7, stride=4, padding=3)
        self.down2 = nn.Conv1d(width, 2 * width, 7, stride=4, padding=3)
        self.middle = nn.Conv1d(2 * width, 2 * width, 7, padding=3)
        self.up = nn.ConvTranspose1d(2 * width, width, 4, stride=4)
        self.out = nn.ConvTranspose1d(2 * width, 1, 4, stride=4)

    def forward(self, wave):
        a = F.relu(self.down1(wave))
        b = F.relu(self.down2(a))
        b = F.relu(self.middle(b))
        c = F.relu(self.up(b))
        return self.out(torch.cat([a, c], dim=1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stations", type=int, default=6)
    parser.add_argument("--hours", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    picks = record_network(Path(tempfile.gettempdir()) / "quake_network", args.stations, args.hours)
    loader = DataLoader(
        PickWindows(picks), batch_size=args.batch_size, shuffle=True, num_workers=2, persistent_workers=True
    )
    net = PickNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for wave, target in loader:
            loss = F.binary_cross_entropy_with_logits(net(wave), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
