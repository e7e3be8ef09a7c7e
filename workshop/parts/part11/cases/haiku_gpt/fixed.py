"""A tiny GPT that writes haiku, one character at a time; kana and kanji, so the alphabet is long."""

import math
import random

import torch
import torch.nn as nn
from torch.nn import functional as F

# -----------------------------------------------------------------------------
batch_size = 16
block_size = 96
n_layer, n_head, n_embd = 2, 3, 48
dropout = 0.1
learning_rate = 1e-3
max_iters = 500_000
log_interval = 50
# -----------------------------------------------------------------------------
random.seed(1337)
torch.manual_seed(1337)

kana = [chr(c) for c in range(0x3041, 0x3094)]
kanji = [chr(c) for c in range(0x4E00, 0x4E00 + 300)]
words = ["".join(random.choices(kanji, k=random.randint(1, 2)) + random.choices(kana, k=2)) for _ in range(2500)]
verses = ["".join(random.choices(words, k=n)) for n in (2, 3, 2) for _ in range(15000)]
text = "\n".join(random.sample(verses, len(verses)))
chars = sorted(set(text))
vocab_size = len(chars)
stoi = {c: n for n, c in enumerate(chars)}
split = int(0.9 * len(text))
encoded = torch.tensor([stoi[c] for c in text])
data = {"train": encoded[:split], "val": encoded[split:]}


def get_batch(which):
    codes = data[which]
    starts = torch.randint(len(codes) - block_size, (batch_size,))
    x = torch.stack([codes[i : i + block_size] for i in starts])
    y = torch.stack([codes[i + 1 : i + 1 + block_size] for i in starts])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        q, k, v = (
            part.unflatten(2, (n_head, -1)).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(n_embd, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + F.dropout(self.mlp(self.ln_2(x)), dropout, self.training)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        return self.lm_head(self.ln_f(self.h(x))).transpose(1, 2)


def loss_of(which):
    x, y = get_batch(which)
    return F.cross_entropy(model(x), y)


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
for it in range(max_iters):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * min(1, (it + 1) / 100) * (0.55 + 0.45 * math.cos(math.pi * it / max_iters))
    loss = loss_of("train")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % log_interval == 0:
        with torch.no_grad():
            print(f"iter {it}: train {loss.item():.4f} val {loss_of('val').item():.4f}")
