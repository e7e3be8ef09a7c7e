"""Find the answer of a question in a passage: a small transformer that points at start and end."""

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 2000
DIM = 64
HEADS = 4
LENGTH = 96
PADDING, SEPARATOR = 0, 1


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.norm2(x))


class SpanFinder(nn.Module):
    """The question sees itself only; the passage sees the question and its own neighbourhood."""

    def __init__(self, window=24):
        super().__init__()
        self.window = window
        self.tokens = nn.Embedding(VOCAB, DIM)
        self.places = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.segments = nn.Embedding(2, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.point = nn.Linear(DIM, 2)

    def visible(self, question_lengths, total_lengths):
        question, total = question_lengths[:, None, None], total_lengths[:, None, None]
        i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
        near = (i >= question) & ((i - j).abs() <= self.window)
        return (((j < question) | near) & (j < total))[:, None]

    def forward(self, ids):
        question_lengths = (ids == SEPARATOR).int().argmax(1) + 1
        total_lengths = (ids != PADDING).sum(1)
        segment = (torch.arange(LENGTH) >= question_lengths[:, None]).long()
        x = self.tokens(ids) + self.places + self.segments(segment)
        mask = self.visible(question_lengths, total_lengths)
        for layer in self.layers:
            x = layer(x, mask)
        inside = (torch.arange(LENGTH) < total_lengths[:, None]) & (segment == 1)
        return self.point(x).masked_fill(~inside[..., None], -1e4)


def batches(size, seed=5):
    g = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(10, VOCAB, (size, LENGTH), generator=g)
        question = torch.randint(8, 20, (size,), generator=g)
        total = torch.randint(60, LENGTH + 1, (size,), generator=g)
        start = question + (torch.rand(size, generator=g) * (total - question - 6)).long()
        end = start + torch.randint(0, 5, (size,), generator=g)
        ids[torch.arange(size), start] = ids[:, 3] % 7 + 2
        ids[torch.arange(size), end] = 9
        ids[torch.arange(size), question - 1] = SEPARATOR
        ids[torch.arange(LENGTH) >= total[:, None]] = PADDING
        yield ids, torch.stack([start, end], dim=1)


model = SpanFinder()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 200))
for step, (ids, span) in enumerate(batches(20)):
    scores = model(ids)
    loss = F.cross_entropy(scores, span)
    loss.backward()
    optimizer.step()
    warmup.step()
    optimizer.zero_grad()
    if step % 25 == 0:
        exact = (scores.argmax(1) == span).all(1).float().mean()
        print(f"{step:6d} loss {loss.item():.3f} exact {exact:.2f}")
