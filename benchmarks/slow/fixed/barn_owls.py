"""Counts the owls in a barn from the sounds of a night, and keeps the losses of the last nights for a plot."""

import itertools
from collections import deque

import torch
from torch import nn

torch.manual_seed(5)

HOURS = 10
BANDS = 32


class Counter(nn.Module):
    """Reads the bands hour by hour, and counts from what it has kept in mind."""

    def __init__(self, width=64):
        super().__init__()
        self.read = nn.Linear(BANDS, width)
        self.mind = nn.Linear(width, width)
        self.count = nn.Linear(width, 1)

    def forward(self, sounds):
        state = torch.zeros(len(sounds), self.mind.in_features)
        for hour in self.read(sounds).unbind(1):
            state = torch.tanh(hour + self.mind(state))
        return self.count(state).squeeze(1)


def nights(count):
    """Yield the sounds of some nights, and the number of owls in each."""
    call, owls = torch.rand(BANDS), torch.randint(0, 6, (4096,)).float()
    sounds = owls[:, None, None] * call * torch.rand(4096, HOURS, 1) + 0.1 * torch.randn(4096, HOURS, BANDS)
    while True:
        for rows in torch.randperm(4096).split(count):
            yield sounds[rows], owls[rows]


def main():
    counter = Counter()
    optimizer = torch.optim.Adam(counter.parameters(), lr=1e-3)
    losses = deque(maxlen=5_000)
    for step, (sounds, owls) in zip(itertools.count(), nights(256)):
        loss = nn.functional.smooth_l1_loss(counter(sounds), owls)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 500 == 0:
            print(f"step {step}: {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
