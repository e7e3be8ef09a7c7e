"""Denoising diffusion on 1-d signals with gradient accumulation over micro batches."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    length: int = 256
    width: int = 32
    micro: int = 32
    accum: int = 6
    steps: int = 100000
    lr: float = 1e-3


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(4, c)
        self.conv = nn.Conv1d(c, c, 3, padding=1)

    def forward(self, x, t):
        return x + self.conv(torch.nn.functional.silu(self.norm(x) + t))


class Denoiser(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.inp = nn.Conv1d(1, c, 3, padding=1)
        self.time = nn.Linear(1, c)
        self.blocks = nn.ModuleList(ResBlock(c) for _ in range(4))
        self.out = nn.Conv1d(c, 1, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x)
        te = self.time(t)[:, :, None]
        for b in self.blocks:
            h = b(h, te)
        return self.out(h)


def sample_signals(n, length):
    f = 1 + 5 * torch.rand(n, 1, 1)
    p = 2 * math.pi * torch.rand(n, 1, 1)
    t = torch.linspace(0, 1, length)[None, None]
    return torch.sin(2 * math.pi * f * t + p)


def micro_loss(model, cfg):
    x0 = sample_signals(cfg.micro, cfg.length)
    t = torch.rand(cfg.micro, 1)
    a = torch.cos(t * math.pi / 2)[..., None]
    eps = torch.randn_like(x0)
    xt = a * x0 + (1 - a**2).sqrt() * eps
    return (model(xt, t) - eps).pow(2).mean()


def main(cfg=Config()):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Denoiser(cfg.width)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        opt.zero_grad()
        total = 0
        for _ in range(cfg.accum):
            total = total + micro_loss(model, cfg) / cfg.accum  # fault
        total.backward()
        opt.step()
        if step < 3 or step % 20 == 0:
            print(f"step {step} loss {float(total):.5f}", flush=True)


if __name__ == "__main__":
    main()
