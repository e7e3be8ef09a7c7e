"""Tells the calls of four whale species apart, from mu-law coded hydrophone clips."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 4000
SECONDS = 1.5
MU = 255
SPECIES = {"humpback": (180, 3.0), "minke": (90, 12.0), "fin": (22, 0.7), "bowhead": (310, 5.0)}


class Hydrophone(Dataset):
    """Synthetic calls: a chirp of the species in coloured noise."""

    def __init__(self, clips=480, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(int(RATE * SECONDS)) / RATE
        self.clips, self.labels = [], []
        for n in range(clips):
            label = n % len(SPECIES)
            base, wobble = list(SPECIES.values())[label]
            phase = 2 * np.pi * base * t + 4 * np.sin(2 * np.pi * wobble * t + rng.uniform(0, 6))
            noise = np.convolve(rng.normal(size=len(t)), np.ones(5) / 5, mode="same")
            clip = rng.uniform(0.2, 0.8) * np.sin(phase) + 0.3 * noise
            self.clips.append(np.clip(clip, -1, 1).astype(np.float32))
            self.labels.append(label)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        clip = np.roll(self.clips[index], np.random.randint(RATE))
        codes = (np.copysign(np.log1p(MU * np.abs(clip)) / math.log1p(MU), clip) + 1) / 2 * MU + 0.5
        return torch.from_numpy(codes.astype(np.int64)), self.labels[index]


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.gate = nn.Conv1d(width, 2 * width, 3, dilation=dilation, padding=dilation)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.gate(x).chunk(2, dim=1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class CallNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(MU + 1, width)
        self.down = nn.Conv1d(width, width, 8, stride=8)
        self.blocks = nn.Sequential(*[Residual(width, 2**k) for k in range(5)])
        self.head = nn.Linear(width, len(SPECIES))

    def forward(self, codes):
        x = self.down(self.embed(codes).transpose(1, 2))
        return self.head(self.blocks(x).mean(2))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Hydrophone(), batch_size=12, shuffle=True, drop_last=True)
    net = CallNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(400):
        right = seen = 0
        for codes, label in loader:
            logits = net(codes)
            loss = F.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        print(f"epoch {epoch}: accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
