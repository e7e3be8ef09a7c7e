"""Two DataLoaders side by side: the labelled one is slow."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from training import network, train


class Labelled(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((64,), index / 4096), index % 4


class Pairs:
    def __init__(self, labelled, more):
        self.labelled, self.more = labelled, more

    def __iter__(self):
        for (x, y), (more,) in zip(self.labelled, self.more, strict=True):
            yield x + more, y


if __name__ == "__main__":
    labelled = DataLoader(Labelled(), batch_size=16, shuffle=True)
    more = DataLoader(TensorDataset(torch.zeros(4096, 64)), batch_size=16)
    train(Pairs(labelled, more), network(64, 256), passes=20)
