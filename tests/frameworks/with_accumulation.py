"""A loop that adds up the gradients of four batches for a step."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((8,), index / 512), index % 3


model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(1000):
    for number, (x, y) in enumerate(DataLoader(Signals(), batch_size=8), start=1):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if number % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
