"""Items that wait for slow storage."""

import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import network, train


class Stored(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((64,), index / 4096), index % 4


if __name__ == "__main__":
    train(DataLoader(Stored(), batch_size=16, shuffle=True), network(64, 256), passes=20)
