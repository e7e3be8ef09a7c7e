"""A network that answers late now and then."""

import random
import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import network, train


class Remote(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(random.expovariate(1 / 0.004) if random.random() < 0.98 else 0.1)
        return torch.full((64,), index / 4096), index % 4


if __name__ == "__main__":
    train(DataLoader(Remote(), batch_size=16, shuffle=True), network(64, 256), passes=20)
