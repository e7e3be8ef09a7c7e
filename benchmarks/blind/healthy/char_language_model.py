"""Character language model: a small causal transformer on generated pseudo-English."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CONTEXT = 96
BATCH = 12
DIM = 128
HEADS = 4
LAYERS = 4
STEPS_PER_EPOCH = 20


def make_text(length=200_000, seed=9):
    """Text over a 40-word lexicon drawn from a random bigram model."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfw"))
    lexicon = ["".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(40)]
    follow = rng.dirichlet(np.full(40, 0.2), size=40).cumsum(1)
    words, size, w = [], 0, 0
    for r in rng.random(length // 3):
        w = min(int(np.searchsorted(follow[w], r)), 39)
        words.append(lexicon[w])
        size += len(lexicon[w]) + 1
        if size > length:
            break
    text = " ".join(words)
    alphabet = sorted(set(text))
    lookup = np.zeros(128, dtype=np.int64)
    lookup[[ord(c) for c in alphabet]] = np.arange(len(alphabet))
    return torch.from_numpy(lookup[np.frombuffer(text.encode(), dtype=np.uint8)]), len(alphabet)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(att.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.norm2(x))


class CharLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.chars = nn.Embedding(vocab, DIM)
        self.positions = nn.Parameter(torch.zeros(CONTEXT, DIM))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, vocab)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.chars(ids) + self.positions)))


def windows(text, batch):
    starts = torch.randint(len(text) - CONTEXT - 1, (batch, 1))
    chunk = text[starts + torch.arange(CONTEXT + 1)]
    return chunk[:, :-1], chunk[:, 1:]


class Trainer:
    def __init__(self, epochs=1000):
        torch.manual_seed(9)
        text, self.vocab = make_text()
        cut = int(0.95 * len(text))
        self.train_text, self.val_text = text[:cut], text[cut:]
        self.epochs = epochs
        self.model = CharLM(self.vocab)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=6e-4, weight_decay=0.01)

    def loss(self, inputs, targets):
        logits = self.model(inputs)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*windows(self.train_text, BATCH))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        value = self.loss(*windows(self.val_text, BATCH))
        self.model.train()
        return value.item()

    def run(self):
        for epoch in range(self.epochs):
            train = torch.stack([self.step() for _ in range(STEPS_PER_EPOCH)]).mean().item()
            text = f"epoch {epoch:4d} train {train:.4f}"
            if epoch % 5 == 4:
                text += f" val bits/char {self.validate() / math.log(2):.3f}"
            print(text, flush=True)


if __name__ == "__main__":
    Trainer().run()
