"""Predict the next move from the 64 squares of a chess board with a small attention model."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    width: int = 96
    heads: int = 24
    layers: int = 2
    batch: int = 8
    lr: float = 3e-4
    positions: int = 20_000


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.join = nn.Linear(width, width)

    def forward(self, x):
        parts = (self.query(x), self.key(x), self.value(x))
        q, k, v = (part.unflatten(-1, (self.heads, self.size)).transpose(1, 2) for part in parts)
        return self.join(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.after(x))


class MoveModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.piece = nn.Embedding(13, s.width)
        self.square = nn.Parameter(0.02 * torch.randn(64, s.width))
        self.blocks = nn.Sequential(*(Block(s.width, s.heads) for _ in range(s.layers)))
        self.score = nn.Linear(s.width, 2)

    def forward(self, boards):
        return self.score(self.blocks(self.piece(boards) + self.square))


def random_positions(n):
    boards = torch.where(torch.rand(n, 64) < 0.4, torch.randint(1, 13, (n, 64)), 0)
    strength = torch.where((boards > 0) & (boards < 7), boards, 0)
    source = strength.argmax(dim=1)
    target = torch.where(boards > 6, boards, 0).argmax(dim=1)
    return boards, torch.stack([source, target], dim=1)


def run(s):
    torch.manual_seed(8)
    boards, moves = random_positions(s.positions)
    model = MoveModel(s)
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr)
    for epoch in range(100):
        for i, pick in enumerate(torch.randperm(len(boards)).split(s.batch)):
            loss = F.cross_entropy(model(boards[pick]), moves[pick])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if i % 50 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    run(Settings())
