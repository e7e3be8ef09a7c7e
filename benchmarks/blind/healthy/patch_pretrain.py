"""Self-supervised pretraining of a small ViT with a momentum (EMA) teacher.

The student sees a masked image and predicts the teacher's patch features.
"""

import copy
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    size: int = 32
    patch: int = 4
    dim: int = 128
    depth: int = 4
    heads: int = 4
    batch_size: int = 16
    steps_per_epoch: int = 40
    epochs: int = 1000
    lr: float = 5e-4
    momentum: float = 0.996
    mask_ratio: float = 0.5
    max_norm: float = 1.0


def textures(n, size, seed=0):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, size)
    f = 2 + 14 * torch.rand(n, 3, 2, 1, 1, generator=g)
    phase = 6.28 * torch.rand(n, 3, 1, 1, generator=g)
    img = torch.sin(f[:, :, 0] * grid[:, None] + f[:, :, 1] * grid[None, :] + phase)
    return img + 0.1 * torch.randn(n, 3, size, size, generator=g)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.proj(a)
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Conv2d(3, cfg.dim, cfg.patch, cfg.patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, (cfg.size // cfg.patch) ** 2, cfg.dim))
        self.mask_token = nn.Parameter(torch.zeros(cfg.dim))
        self.layers = nn.Sequential(*[Layer(cfg.dim, cfg.heads) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, img, mask=None):
        x = self.embed(img).flatten(2).transpose(1, 2).contiguous()
        if mask is not None:
            x = torch.where(mask[..., None], self.mask_token, x)
        return self.norm(self.layers(x + self.pos))


class Pretrainer:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg = cfg
        self.images = textures(1024, cfg.size)
        self.student = ViT(cfg)
        self.teacher = copy.deepcopy(self.student).eval().requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(cfg.dim, 256), nn.GELU(), nn.Linear(256, cfg.dim))
        self.params = [*self.student.parameters(), *self.predictor.parameters()]
        self.pairs = list(self.teacher.parameters()), [p.detach() for p in self.student.parameters()]
        self.opt = torch.optim.AdamW(self.params, lr=cfg.lr, weight_decay=0.05, foreach=True)

    def step(self, img):
        n = self.student.pos.size(1)
        mask = torch.rand(len(img), n) < self.cfg.mask_ratio
        with torch.no_grad():
            target = F.layer_norm(self.teacher(img)[mask], (self.cfg.dim,))
        pred = self.predictor(self.student(img, mask)[mask])
        loss = F.smooth_l1_loss(pred, target)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, self.cfg.max_norm)
        self.opt.step()
        torch._foreach_lerp_(*self.pairs, 1 - self.cfg.momentum)
        return loss.detach()

    def fit(self):
        for epoch in range(self.cfg.epochs):
            start, total = time.perf_counter(), torch.zeros(())
            order = torch.randperm(len(self.images))[: self.cfg.steps_per_epoch * self.cfg.batch_size]
            for idx in order.split(self.cfg.batch_size):
                total += self.step(self.images[idx])
            print(
                f"epoch {epoch} loss {total.item() / self.cfg.steps_per_epoch:.5f} {time.perf_counter() - start:.1f}s",
                flush=True,
            )


if __name__ == "__main__":
    Pretrainer(Config()).fit()
