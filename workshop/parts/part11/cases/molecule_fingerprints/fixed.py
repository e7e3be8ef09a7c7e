"""Predict twelve toxicity assays of molecules from their fingerprints with a wide multilayer perceptron."""

import argparse

import torch
from torch import nn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--bits", type=int, default=2048)
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--epochs", type=int, default=2000)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--seed", type=int, default=13)
    return p.parse_args()


def load_molecules(bits, count=8192):
    fingerprints = (torch.rand(count, bits) < 0.05).float()
    rules = torch.randn(bits, 12) * (torch.rand(bits, 12) < 0.02)
    toxic = (fingerprints @ rules > 0.5).float()
    return fingerprints, toxic


def build(bits, width):
    return nn.Sequential(
        nn.Linear(bits, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, 12),
    )


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    fingerprints, toxic = load_molecules(args.bits)
    model = build(args.bits, args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * 100, momentum=0.9, nesterov=True)
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(args.epochs):
        order = torch.randperm(len(fingerprints))
        total = 0.0
        for start in range(0, len(order), args.batch_size):
            rows = order[start : start + args.batch_size]
            loss = bce(model(fingerprints[rows]), toxic[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch:4d} | loss {total * args.batch_size / len(order):.4f}")


if __name__ == "__main__":
    main()
