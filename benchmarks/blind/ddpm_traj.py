"""Denoising diffusion on flattened robot trajectories, with an EMA sampler."""

import copy
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HORIZON, DOF = 32, 7
DIM = HORIZON * DOF


def demo_trajectories(n=4096, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, HORIZON)
    start, goal = torch.randn(n, 1, DOF, generator=g), torch.randn(n, 1, DOF, generator=g)
    blend = (3 * t**2 - 2 * t**3)[None, :, None]
    wobble = 0.1 * torch.sin(2 * math.pi * t[None, :, None] * torch.randint(1, 4, (n, 1, DOF), generator=g))
    return (start + (goal - start) * blend + wobble).reshape(n, DIM)


class ResidualMLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x, temb):
        return x + self.fc2(F.silu(self.fc1(self.norm(x + temb))))


class Denoiser(nn.Module):
    def __init__(self, width=768, depth=4):
        super().__init__()
        self.width = width
        self.inp = nn.Linear(DIM, width)
        self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList([ResidualMLP(width) for _ in range(depth)])
        self.out = nn.Linear(width, DIM)
        self.register_buffer("freqs", torch.exp(-math.log(10000) * torch.arange(32) / 32))

    def forward(self, x, t):
        ang = t[:, None].float() * self.freqs
        temb = self.time(torch.cat([ang.sin(), ang.cos()], -1))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, temb)
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        self.module.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        averaged = {}
        current = model.state_dict()
        for name, value in self.module.state_dict().items():
            averaged[name] = value * self.decay + current[name] * (1 - self.decay)
        self.module.load_state_dict(averaged)


class Diffusion:
    def __init__(self, steps=200):
        self.steps = steps
        betas = torch.linspace(1e-4, 0.03, steps)
        abar = torch.cumprod(1 - betas, 0)
        self.sqrt_abar, self.sqrt_1m = abar.sqrt(), (1 - abar).sqrt()

    def loss(self, model, x0):
        t = torch.randint(0, self.steps, (len(x0),))
        eps = torch.randn_like(x0)
        xt = self.sqrt_abar[t, None] * x0 + self.sqrt_1m[t, None] * eps
        return F.mse_loss(model(xt, t), eps)


def train(epochs=1000, batch_size=96, lr=2e-4):
    torch.manual_seed(0)
    data = demo_trajectories()
    held_out, data = data[:128], data[128:]
    model, diffusion = Denoiser(), Diffusion()
    ema = EMA(model)
    opt = torch.optim.SGD(model.parameters(), lr=lr * 50, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    for epoch in range(epochs):
        tic, total = time.time(), 0.0
        batches = torch.randperm(len(data))[: 40 * batch_size].split(batch_size)
        for idx in batches:
            loss = diffusion.loss(model, data[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            ema.update(model)
            total += loss.item()
        sched.step()
        with torch.no_grad():
            val = diffusion.loss(ema.module, held_out).item()
        print(
            f"epoch {epoch:4d}  train {total / len(batches):.4f}  ema-val {val:.4f}  {time.time() - tic:.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    train()
