"""A normalising flow (affine couplings) that learns the density of the two-moons data."""

import math

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)
torch.manual_seed(0)


def moons(n):
    half = n // 2
    a, b = torch.rand(half) * math.pi, torch.rand(n - half) * math.pi
    upper = torch.stack([a.cos(), a.sin()], dim=1)
    lower = torch.stack([1 - b.cos(), 0.5 - b.sin()], dim=1)
    return torch.cat([upper, lower]) + 0.06 * torch.randn(n, 2)


class Coupling(nn.Module):
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
        x = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return x, s.squeeze(1)


class ActNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale, self.bias = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return (x + self.bias) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Flow(nn.Module):
    def __init__(self, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(m for i in range(depth) for m in (ActNorm(), Coupling(flip=i % 2 == 1)))

    def log_prob(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return total - 0.5 * (x**2).sum(1) - math.log(2 * math.pi)


flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-4)
for step in range(10**6):
    loss = -flow.log_prob(moons(256)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
    optimizer.step()
    if step % 100 == 0:
        print(f"{step:7d} nll {loss.item():.4f}")
