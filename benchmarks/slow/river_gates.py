"""Predicts the flow at the mouth of a river from its gates; each gate has a small network of its own."""

import itertools

import torch
from torch import nn

torch.manual_seed(4)

GATES = 48
HOURS = 24


class Gate(nn.Module):
    """What a gate lets through, from its last hours."""

    def __init__(self, width=32):
        super().__init__()
        self.read = nn.Linear(HOURS, width)
        self.flow = nn.Linear(width, 4)

    def forward(self, levels):
        return self.flow(torch.tanh(self.read(levels)))


class River(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(Gate() for _ in range(GATES))
        self.mouth = nn.Linear(4 * GATES, 1)

    def forward(self, levels):
        flows = [gate(levels[:, number]) for number, gate in enumerate(self.gates)]
        return self.mouth(torch.cat(flows, dim=1)).squeeze(1)


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
