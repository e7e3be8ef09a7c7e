"""Contrastive learning of two noisy views of vectors (InfoNCE on squared distances)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
torch.set_num_threads(1)

N, D, EMB, BATCH = 6000, 96, 96, 320
centers = torch.randn(60, D)
data = centers[torch.randint(0, 60, (N,))] + 0.3 * torch.randn(N, D)


def augment(x):
    return x + 0.2 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(D, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.proj = nn.Linear(256, EMB)

    def forward(self, x):
        return F.normalize(self.proj(self.body(x)), dim=-1)


def sq_dist(a, b):
    aa = (a * a).sum(-1, keepdim=True)
    bb = (b * b).sum(-1, keepdim=True)
    return (aa + bb.t() - 2.0 * a @ b.t()).clamp_min(0.0)


def info_nce(a, b, tau=0.2):
    logits = -sq_dist(a, b) / tau
    target = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


enc = Encoder()
opt = torch.optim.SGD(enc.parameters(), lr=0.05, momentum=0.9)
step = 0
for epoch in range(500):
    perm = torch.randperm(N)
    running = 0.0
    nb = 0
    for i in range(0, N - BATCH + 1, BATCH):
        x = data[perm[i : i + BATCH]]
        loss = info_nce(enc(augment(x)), enc(augment(x)))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(enc.parameters(), 5.0)
        opt.step()
        running += loss.item()
        nb += 1
        if step < 3:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        step += 1
    print(f"epoch {epoch} loss {running / nb:.4f}", flush=True)
