"""Tells the kind of a storm and its damage from a week of pressure, with one body and two heads."""

import itertools

import torch
from torch import nn

torch.manual_seed(2)

HOURS = 168
KINDS = 6


def storms(count):
    """Yield weeks of pressure with a trough, whose depth and length tell kind and damage."""
    hours = torch.arange(HOURS)
    while True:
        kinds = torch.randint(KINDS, (count,))
        depth = torch.rand(count, 1) + 0.3 * kinds[:, None]
        trough = depth * torch.exp(-((hours - 60 - 50 * torch.rand(count, 1)) ** 2) / (40 + 30 * kinds[:, None]))
        yield 1 - trough + 0.05 * torch.randn(count, HOURS), kinds, depth.squeeze(1)


def main():
    body = nn.Sequential(
        nn.Linear(HOURS, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU()
    )
    kind_head, damage_head = nn.Linear(768, KINDS), nn.Linear(768, 1)
    parameters = itertools.chain(body.parameters(), kind_head.parameters(), damage_head.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for step, (pressure, kinds, damage) in zip(itertools.count(), storms(256)):
        features = body(pressure)
        kind_loss = nn.functional.cross_entropy(kind_head(features), kinds)
        damage_loss = nn.functional.mse_loss(damage_head(features).squeeze(1), damage)
        optimizer.zero_grad()
        (kind_loss + damage_loss).backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: kind {kind_loss.item():.3f}, damage {damage_loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
