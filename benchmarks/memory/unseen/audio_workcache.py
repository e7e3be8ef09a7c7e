"""Keyword spotting on synthetic tones; spectrograms are computed in the loader's workers."""

import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Tones(Dataset):
    def __init__(self, n, seconds=1.0, rate=8000):
        self.n, self.samples, self.rate = n, int(seconds * rate), rate
        self.window = torch.hann_window(256)
        self.epoch_seed = 0
        self.cache = {}

    def __len__(self):
        return self.n

    def wave(self, i, g):
        t = torch.arange(self.samples) / self.rate
        f = 300 + 250 * (i % 10)
        return torch.sin(2 * math.pi * f * t) + 0.5 * torch.randn(self.samples, generator=g)

    def __getitem__(self, i):
        if i in self.cache:
            spec = self.cache[i]
        else:
            g = torch.Generator().manual_seed(i)
            s = torch.stft(self.wave(i, g), 256, 64, window=self.window, return_complex=True)
            spec = torch.log1p(s.abs())
            self.cache[i] = spec  # fault
        return spec[:96], i % 10


class SpotNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(96, 64, 5, stride=2),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.net(x)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(
        Tones(3000),
        batch_size=32,
        shuffle=True,
        num_workers=2,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    model = SpotNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lossf = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(500):
        right = 0
        for x, y in loader:
            out = model(x)
            loss = lossf(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += (out.argmax(1) == y).sum().item()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} acc {right / 3000:.3f}", flush=True)


if __name__ == "__main__":
    main()
