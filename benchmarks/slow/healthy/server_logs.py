"""A causal transformer over the event ids of server logs: learns what line comes next."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    events: int = 500
    context: int = 96
    width: int = 128
    heads: int = 4
    layers: int = 3
    batch: int = 16
    lr: float = 3e-4
    steps: int = 100_000


class LogModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.event = nn.Embedding(c.events, c.width)
        self.position = nn.Parameter(torch.randn(c.context, c.width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            c.width, c.heads, 3 * c.width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, c.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(c.width)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(c.context))

    def forward(self, ids):
        h = self.body(self.event(ids) + self.position, mask=self.causal, is_causal=True)
        return self.norm(h) @ self.event.weight.t()


def day_of_logs(c, lines=200_000):
    """Sessions that walk through the event ids with small strides, restarts in between."""
    stride = torch.randint(1, 6, (lines // 50,)).repeat_interleave(50)
    start = torch.randint(0, c.events, (lines // 50,)).repeat_interleave(50)
    place = torch.arange(50).repeat(lines // 50)
    return (start + stride * place) % c.events


def main():
    c = Config()
    torch.manual_seed(0)
    stream = day_of_logs(c)
    model = LogModel(c)
    optimizer = torch.optim.AdamW(model.parameters(), lr=c.lr, betas=(0.9, 0.95))
    offsets = torch.arange(c.context + 1)
    for step in range(c.steps):
        rows = stream[torch.randint(0, len(stream) - c.context - 1, (c.batch, 1)) + offsets]
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.3f} nats")


if __name__ == "__main__":
    main()
