"""Shells from two sides: contrastive learning on crops of photographs that all fit into memory."""

from itertools import pairwise

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SIDE, WIDTH, BATCH, PHOTOS = (224, 32, 64, 640) if ON_GPU else (48, 8, 8, 64)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [3, WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH]
        self.body = nn.Sequential(*(block(*each) for each in pairwise(widths)))
        self.head = nn.Linear(8 * WIDTH, 64)

    def forward(self, x):
        return nn.functional.normalize(self.head(self.body(x).mean((2, 3))), dim=1)


def train():
    photos = torch.randint(256, (PHOTOS, 2, 3, SIDE, SIDE), dtype=torch.uint8)
    model = Views().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(100_000):
        for rows in torch.randperm(PHOTOS).split(BATCH):
            pairs = ((photos[rows].float() / 255 - 0.45) / 0.25).to(device)
            one, other = model(pairs[:, 0]), model(pairs[:, 1])
            loss = nn.functional.cross_entropy(one @ other.T / 0.1, torch.arange(len(rows), device=device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
