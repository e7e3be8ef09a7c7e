"""Items that wait, and are then computed."""

import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import network, train


class Decoded(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.003)
        total = sum(number * number % 7 for number in range(6000))
        return torch.full((64,), (index + total) / 4096), index % 4


if __name__ == "__main__":
    train(DataLoader(Decoded(), batch_size=16, shuffle=True), network(64, 256), passes=20)
