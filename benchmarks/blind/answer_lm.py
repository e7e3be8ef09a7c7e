"""Fine-tune a small decoder-only transformer on key-value recall prompts.

Every sequence is a prompt of (key, value) pairs followed by queries; only the
answer tokens contribute to the loss.
"""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE = -100


def build_corpus(n_seq, seq_len, vocab, n_answers, seed=0):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, vocab, (n_seq, seq_len), generator=g)
    labels = torch.full_like(tokens, IGNORE)
    for j in range(n_answers):
        src = 2 * j + 1
        dst = seq_len - 2 * (n_answers - j)
        tokens[:, dst] = tokens[:, src - 1]
        labels[:, dst] = tokens[:, src]
        tokens[:, dst + 1] = tokens[:, src]
    return tokens, labels


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class RecallLM(nn.Module):
    def __init__(self, vocab, dim, depth, heads, seq_len):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(seq_len, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, idx, labels):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=IGNORE)
        return loss


def lr_at(step, base, warmup, total):
    if step < warmup:
        return base * (step + 1) / warmup
    p = min(1.0, (step - warmup) / (total - warmup))
    return base * 0.5 * (1 + math.cos(math.pi * p))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1000)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--seq-len", type=int, default=96)
    ap.add_argument("--vocab", type=int, default=4000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    tokens, labels = build_corpus(256, args.seq_len, args.vocab, n_answers=6)
    model = RecallLM(args.vocab, args.dim, args.depth, 4, args.seq_len)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)

    steps_per_epoch = len(tokens) // args.batch_size
    step = 0
    for epoch in range(args.epochs):
        t0 = time.time()
        perm = torch.randperm(len(tokens))
        total = 0.0
        for i in range(steps_per_epoch):
            sel = perm[i * args.batch_size : (i + 1) * args.batch_size]
            for group in opt.param_groups:
                group["lr"] = lr_at(step, args.lr, 100, args.epochs * steps_per_epoch)
            loss = model(tokens[sel], labels[sel])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
            step += 1
        print(f"epoch {epoch} loss {total / steps_per_epoch:.4f} ({time.time() - t0:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
