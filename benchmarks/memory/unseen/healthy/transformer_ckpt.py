"""Transformer for sorting numbers, activation checkpointing and gradient accumulation."""

from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


@lru_cache(maxsize=4)
def causal(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        z = self.n1(x)
        x = x + self.att(z, z, z, attn_mask=causal(x.shape[1]), need_weights=False)[0]
        return x + self.ff(self.n2(x))


class Sorter(nn.Module):
    def __init__(self, vocab=34, d=64, layers=3, n=32):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(n, d)
        self.blocks = nn.ModuleList(Block(d, 4) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, x):
        h = self.emb(x) + self.pos(torch.arange(x.shape[1]))
        for b in self.blocks:
            h = checkpoint(b, h, use_reentrant=False)
        return self.out(h)


def make(n, k=15):
    a = torch.randint(0, 32, (n, k))
    seq = torch.cat([a, torch.full((n, 1), 32), a.sort(1).values], 1)
    return seq[:, :-1], seq[:, 1:]


def main(accum=2):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Sorter()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, 200)
    for step in range(10**6):
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(accum):
            x, y = make(32)
            logits = model(x)[:, 15:]
            loss = F.cross_entropy(logits.flatten(0, 1), y[:, 15:].flatten()) / accum
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        warm.step()
        if step < 3 or step % 25 == 0:
            print(f"step {step} loss {total:.5f}", flush=True)


if __name__ == "__main__":
    main()
