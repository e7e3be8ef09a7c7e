"""Two ranks that average their gradients. The data of one of them are slow."""

import os
import time

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        if os.environ["RANK"] == "1":
            time.sleep(0.02)
        return torch.full((8,), index / 512), index % 3


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        for x, y in DataLoader(Shards(), batch_size=4, num_workers=1, persistent_workers=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
