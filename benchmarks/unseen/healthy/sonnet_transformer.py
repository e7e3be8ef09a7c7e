"""A small transformer that continues verse, letter by letter."""

import random

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT, WIDTH, HEADS, LAYERS = 96, 128, 4, 3
BATCH, ACCUMULATE = 16, 2

WORDS = "thou thy summer rose dark time love fair beauty eyes night day sweet heart death year muse world".split()


def verse(lines=12_000):
    muse = random.Random(1609)
    return "\n".join(" ".join(muse.choices(WORDS, k=7)) for _ in range(lines))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class Sonneteer(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letter = nn.Embedding(letters, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters))

    def forward(self, text):
        return self.out(self.layers(self.letter(text) + self.place))


def main():
    torch.manual_seed(0)
    text = verse()
    alphabet = sorted(set(text))
    codes = torch.tensor([alphabet.index(letter) for letter in text])
    windows = codes.unfold(0, CONTEXT + 1, 1)

    model = Sonneteer(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.98))
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 200))

    def accumulate():
        total = 0.0
        for _ in range(ACCUMULATE):
            piece = windows[torch.randint(len(windows), (BATCH,))]
            loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
            (loss / ACCUMULATE).backward()
            total += loss.item() / ACCUMULATE
        return total

    for step in range(100_000):
        loss = accumulate()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        warm_up.step()
        if step % 20 == 0:
            print(f"step {step}: {loss:.3f}")


if __name__ == "__main__":
    main()
