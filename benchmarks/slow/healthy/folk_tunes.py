"""A small GPT that continues folk tunes in letter notation; the tunes lie in a file of bytes."""

import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

block_size, batch_size, width, heads, depth = 128, 12, 128, 4, 3


def write_tunes(path, count=4000):
    rng = np.random.default_rng(6)
    notes = np.frombuffer(b"CDEFGABcdefgab", dtype=np.uint8)
    bars = []
    for _ in range(count):
        walk = np.clip(np.cumsum(rng.integers(-2, 3, 64)) + 7, 0, len(notes) - 1)
        tune = notes[walk].reshape(16, 4)
        bars.append(np.hstack([tune, np.full((16, 1), ord("|"), dtype=np.uint8)]).ravel())
        bars.append(np.array([10], dtype=np.uint8))
    np.concatenate(bars).tofile(path)


def get_batch(data):
    starts = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in starts])
    return x, y


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, width))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width), Attention())
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.think(x)


class Player(nn.Module):
    def __init__(self, symbols=128):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        self.position = nn.Parameter(torch.zeros(block_size, width))
        self.layers = nn.Sequential(*[Layer() for _ in range(depth)])
        self.read_out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, symbols))

    def forward(self, x, y):
        logits = self.read_out(self.layers(self.symbol(x) + self.position))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        write_tunes(file.name)
        data = np.memmap(file.name, dtype=np.uint8, mode="r")
    model = Player()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    for iteration in range(100_000):
        x, y = get_batch(data)
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(iteration, loss.item())
