"""Reads the direction of a bee's waggle dance from short, small clips filmed above the comb."""

import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 60_000


def film(count, frames=14, size=40, seed=5):
    """Draw dancing bees: a blob which runs along a line and shakes across it."""
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:size, 0:size]
    angles = rng.uniform(-math.pi, math.pi, count)
    clips = np.empty((count, frames, size, size), dtype=np.uint8)
    for clip, angle in zip(clips, angles, strict=True):
        for t in range(frames):
            along, across = 1.6 * (t - frames / 2), 2.0 * math.sin(2.1 * t)
            x = size / 2 + along * math.cos(angle) - across * math.sin(angle)
            y = size / 2 + along * math.sin(angle) + across * math.cos(angle)
            blob = 200 * np.exp(-((xs - x) ** 2 + (ys - y) ** 2) / 18)
            clip[t] = np.clip(blob + rng.normal(30, 10, blob.shape), 0, 255)
    return clips, angles.astype(np.float32)


class Dances(Dataset):
    def __init__(self, clips, angles, frames=10):
        self.clips, self.angles, self.frames = clips, angles, frames

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        first = int(torch.randint(0, self.clips.shape[1] - self.frames + 1, ()))
        turns = int(torch.randint(0, 4, ()))
        clip = np.rot90(self.clips[index, first : first + self.frames], -turns, axes=(1, 2))
        angle = self.angles[index] + turns * math.pi / 2
        pixels = torch.from_numpy(clip.astype(np.float32) / 255)
        return pixels, torch.tensor([math.cos(angle), math.sin(angle)])


def endless(loader):
    while True:
        yield from loader


def build_step(model, optimizer):
    """Return a function which takes one step on a batch and tells the mean error in degrees."""

    def step(pixels, direction):
        optimizer.zero_grad()
        guess = nn.functional.normalize(model(pixels), dim=1)
        cosine = (guess * direction).sum(dim=1)
        (1 - cosine).mean().backward()
        optimizer.step()
        return torch.rad2deg(torch.acos(cosine.detach().clamp(-1, 1))).mean().item()

    return step


def main():
    torch.manual_seed(1)
    dances = Dances(*film(count=96))
    loader = DataLoader(dances, batch_size=24, shuffle=True, num_workers=2, persistent_workers=True)
    model = nn.Sequential(
        nn.Conv2d(dances.frames, 24, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48 * 10 * 10, 64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )
    step = build_step(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    smooth = 90.0
    for number, batch in zip(range(STEPS), endless(loader), strict=False):
        smooth = 0.98 * smooth + 0.02 * step(*batch)
        if number % 100 == 0:
            print(f"step {number}: {smooth:.1f} degrees off")


if __name__ == "__main__":
    main()
