"""Teaches a small network to tell moths by the scales of their wings, from the answers of a large one."""

import itertools

import torch
from torch import nn

torch.manual_seed(11)

KINDS = 40
BANDS = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def network(blocks):
    return nn.Sequential(*(Block(BANDS) for _ in range(blocks)), nn.Linear(BANDS, KINDS))


def scales(count):
    """Yield spectra of single scales: a few smooth colours, and the noise of the camera."""
    colours = torch.rand(KINDS, BANDS).cumsum(1) / BANDS
    spectra = colours[torch.randint(KINDS, (16 * count,))] + 0.05 * torch.randn(16 * count, BANDS)
    while True:
        yield from spectra[torch.randperm(len(spectra))].split(count)


def distance(answers, taught, warmth=2.0):
    """The divergence of two predictions, both of them made softer."""
    taught = (taught / warmth).softmax(1)
    return nn.functional.kl_div((answers / warmth).log_softmax(1), taught, reduction="batchmean")


def main():
    teacher, student = network(8).eval(), network(1)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for step, spectra in zip(itertools.count(), scales(4096)):
        with torch.no_grad():
            taught = teacher(spectra)
        loss = distance(student(spectra), taught)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
