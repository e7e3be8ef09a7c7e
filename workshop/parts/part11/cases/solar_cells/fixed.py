"""Finds cracked solar cells on electroluminescence pictures, by their local binary patterns."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RING = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


@dataclass(frozen=True)
class Settings:
    cells: int = 640
    size: int = 48
    batch_size: int = 16
    workers: int = 2
    epochs: int = 1000
    lr: float = 3e-3


def picture(rng, size, cracked):
    cell = rng.normal(0.6, 0.05, (size, size))
    cell[:, :: size // 4] -= 0.3
    if cracked:
        row = int(rng.integers(4, size - 4))
        for column in range(size):
            row = int(np.clip(row + rng.integers(-1, 2), 1, size - 2))
            cell[row, column] -= 0.35
    return cell.clip(0, 1).astype(np.float32)


class Cells(Dataset):
    def __init__(self, settings):
        rng = np.random.default_rng(11)
        self.labels = rng.integers(0, 2, settings.cells)
        self.cells = [picture(rng, settings.size, cracked) for cracked in self.labels]

    def __len__(self):
        return len(self.cells)

    def __getitem__(self, index):
        cell = self.cells[index]
        if np.random.rand() < 0.5:
            cell = np.flipud(cell)
        height, width = cell.shape
        pattern = np.zeros((height, width), dtype=np.uint8)
        for bit, (dy, dx) in enumerate(RING):
            shifted = cell[1 + dy : height - 1 + dy, 1 + dx : width - 1 + dx]
            pattern[1:-1, 1:-1] |= (shifted >= cell[1:-1, 1:-1]).astype(np.uint8) << bit
        image = np.stack([cell, pattern.astype(np.float32) / 255])
        return torch.from_numpy(image), np.float32(self.labels[index])


def make_model():
    return nn.Sequential(
        nn.Conv2d(2, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.SiLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 1),
        nn.Flatten(0),
    )


def train(settings):
    loader = DataLoader(
        Cells(settings),
        batch_size=settings.batch_size,
        shuffle=True,
        num_workers=settings.workers,
        persistent_workers=True,
        drop_last=True,
    )
    model = make_model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=settings.lr)
    loss_of = nn.BCEWithLogitsLoss()
    for epoch in range(settings.epochs):
        losses = []
        for image, cracked in loader:
            loss = loss_of(model(image), cracked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch + 1}: {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    train(Settings())
