"""A stack of affine couplings that moves noisy points back to the two moons that they came from."""

import math

import torch
from torch import nn

torch.manual_seed(0)


def moons(n):
    half = n // 2
    a, b = torch.rand(half) * math.pi, torch.rand(n - half) * math.pi
    upper = torch.stack([a.cos(), a.sin()], dim=1)
    lower = torch.stack([1 - b.cos(), 0.5 - b.sin()], dim=1)
    return torch.cat([upper, lower])


class Coupling(nn.Module):
    """Scales and shifts one coordinate, by amounts that depend on the other one."""

    def __init__(self, flip, hidden=64):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.scale, self.shift = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        h = self.net(a)
        s = torch.tanh(self.scale(h)) * self.gain.exp()
        b = b * s.exp() + self.shift(h)
        return torch.cat([b, a] if self.flip else [a, b], dim=1)


class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale, self.bias = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return (x + self.bias) * self.log_scale.exp()


def flow(depth=12):
    return nn.Sequential(*(m for i in range(depth) for m in (ActNorm(), Coupling(flip=i % 2 == 1))))


model = flow()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
for step in range(10**6):
    clean = moons(256)
    noisy = clean + 0.15 * torch.randn_like(clean)
    loss = nn.functional.mse_loss(model(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"{step:7d} squared distance {loss.item():.4f}")
