"""GRU seq2seq that learns to reverse digit strings."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SRC, TGT, H = 40, 42, 128
BOS = 40


class Reverser(nn.Module):
    def __init__(self):
        super().__init__()
        self.src = nn.Embedding(SRC, H)
        self.tgt = nn.Embedding(TGT, H)
        self.enc = nn.GRU(H, H, batch_first=True)
        self.dec = nn.GRU(H, H, batch_first=True)
        self.att = nn.Linear(H, H, bias=False)
        self.out = nn.Linear(2 * H, TGT)

    def forward(self, src, tgt_in):
        e, h = self.enc(self.src(src))
        d, _ = self.dec(self.tgt(tgt_in), h)
        w = torch.softmax(self.att(d) @ e.transpose(1, 2) / H**0.5, -1)
        logits = self.out(torch.cat([d, w @ e], -1))
        return logits


def batch(rng, n=64, t=20):
    src = torch.tensor([[rng.randrange(SRC) for _ in range(t)] for _ in range(n)])
    tgt = src.flip(1)
    tgt_in = torch.cat([torch.full((n, 1), BOS), tgt[:, :-1]], 1)
    return src, tgt_in, tgt


def token_accuracy(logits, tgt):
    return (logits.argmax(-1) == tgt).float().mean().item()


def train():
    rng = random.Random(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Reverser()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(10**6):
        src, tgt_in, tgt = batch(rng)
        logits = model(src, tgt_in)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())

        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step < 3 or step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f} acc {token_accuracy(logits, tgt):.3f}", flush=True)


if __name__ == "__main__":
    train()
