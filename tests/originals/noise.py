"""A model that learns to tell the noise in something, which the loop adds: another one each time."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(7)
        self.shapes = (torch.randn(128, 4, generator=dice) @ torch.randn(4, 32, generator=dice)) / 2

    def __len__(self):
        return len(self.shapes)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.shapes[index]


def main():
    shapes = Shapes()
    loader = DataLoader(shapes, 8, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for clean in loader:
            noise = torch.randn_like(clean)
            much = torch.rand(len(clean), 1)
            optimizer.zero_grad()
            mixed = (1 - much).sqrt() * clean + much.sqrt() * noise
            nn.functional.mse_loss(model(mixed), noise).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
