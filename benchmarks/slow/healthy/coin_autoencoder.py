"""A convolutional autoencoder for pictures of worn coins, which it learns to clean."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=300)
parser.add_argument("--learning-rate", type=float, default=1e-3)


def coins(count, side=56):
    axis = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    radius = 0.6 + 0.3 * torch.rand(count, 1, 1)
    ring = torch.sigmoid(((x**2 + y**2).sqrt() - radius).abs().mul(-30).add(2))
    head = torch.exp(-((x - 0.4 * torch.randn(count, 1, 1)) ** 2 + y**2) / 0.1)
    return (0.6 * ring + 0.5 * head).clamp(0, 1)[:, None]


def encoder(c):
    return nn.Sequential(
        nn.Conv2d(1, c, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(c, 2 * c, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(2 * c, 4 * c, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(4 * c, 8, 1),
    )


def decoder(c):
    return nn.Sequential(
        nn.Conv2d(8, 4 * c, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * c, 2 * c, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * c, c, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(c, 1, 3, padding=1),
    )


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(21)
    clean = coins(3000)
    worn = (clean + 0.25 * torch.randn_like(clean)).clamp(0, 1)
    loader = DataLoader(TensorDataset(worn, clean), args.batch_size, shuffle=True)
    enc, dec = encoder(24), decoder(24)
    opt_enc = optim.Adam(enc.parameters(), lr=args.learning_rate)
    opt_dec = optim.Adam(dec.parameters(), lr=args.learning_rate)
    for epoch in range(args.epochs):
        total = 0.0
        for noisy, target in loader:
            loss = nn.functional.mse_loss(dec(enc(noisy)), target)
            opt_enc.zero_grad()
            opt_dec.zero_grad()
            loss.backward()
            opt_enc.step()
            opt_dec.step()
            total += loss.item()
        print(f"epoch {epoch + 1} mse {total / len(loader):.5f}")
