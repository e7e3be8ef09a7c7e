"""A language model that draws its batches by a function of its own, without a DataLoader."""

import time

import torch
from torch import nn

text = torch.randint(0, 64, (20_000,))


def get_batch(size=8, length=32):
    starts = torch.randint(len(text) - length - 1, (size,))
    time.sleep(0.05)
    x = torch.stack([text[start : start + length] for start in starts])
    y = torch.stack([text[start + 1 : start + length + 1] for start in starts])
    return x, y


model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters())
x, y = get_batch()
while True:
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    x, y = get_batch()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
