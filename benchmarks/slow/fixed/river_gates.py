"""Predicts the flow at the mouth of a river from its gates; each gate has a small network of its own."""

import itertools

import torch
from torch import nn

torch.manual_seed(4)

GATES = 48
HOURS = 24


class Gates(nn.Module):
    """What the gates let through, from their last hours."""

    def __init__(self, width=32):
        super().__init__()
        self.read = nn.Parameter((2 * torch.rand(GATES, HOURS, width) - 1) / HOURS**0.5)
        self.bias = nn.Parameter((2 * torch.rand(GATES, 1, width) - 1) / HOURS**0.5)
        self.flow = nn.Parameter((2 * torch.rand(GATES, width, 4) - 1) / width**0.5)
        self.rest = nn.Parameter((2 * torch.rand(GATES, 1, 4) - 1) / width**0.5)

    def forward(self, levels):
        read = torch.tanh(torch.baddbmm(self.bias, levels.transpose(0, 1), self.read))
        return torch.baddbmm(self.rest, read, self.flow)


class River(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = Gates()
        self.mouth = nn.Linear(4 * GATES, 1)

    def forward(self, levels):
        return self.mouth(self.gates(levels).transpose(0, 1).flatten(1)).squeeze(1)


def days(count):
    """Yield water levels at all gates, and the flow at the mouth."""
    weights = torch.rand(GATES)
    while True:
        levels = torch.rand(count, GATES, HOURS).cumsum(2) / HOURS
        yield levels, (levels[:, :, -6:].mean(2).sin() * weights).sum(1)


def main():
    river = River()
    optimizer = torch.optim.Adam(river.parameters(), lr=1e-3)
    for step, (levels, flow) in zip(itertools.count(), days(64)):
        loss = nn.functional.mse_loss(river(levels), flow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
