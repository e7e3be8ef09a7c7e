"""Guesses the wind of a thousand years from the layers of a dune, with a deep and narrow residual network."""

import itertools

import torch
from torch import nn

torch.manual_seed(6)

LAYERS = 60
DEPTH = 40


class Residual(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.mix(self.norm(x)))


def dunes(count):
    """Yield the thickness of the layers of a dune, and the mean wind."""
    while True:
        wind = torch.rand(count)
        yield wind[:, None] * torch.rand(count, LAYERS) + 0.1 * torch.randn(count, LAYERS), wind


def main():
    model = nn.Sequential(nn.Linear(LAYERS, 32), *(Residual() for _ in range(DEPTH)), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, (layers, wind) in zip(itertools.count(), dunes(16)):
        loss = nn.functional.mse_loss(model(layers).squeeze(1), wind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
