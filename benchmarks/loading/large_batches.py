"""Batches of 19 MB, as of pictures in float32."""

import time

import torch
from torch.utils.data import DataLoader, Dataset
from training import network, train


class Pictures(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((3, 224, 224), index / 4096), index % 4


if __name__ == "__main__":
    train(DataLoader(Pictures(), batch_size=32, shuffle=True), network(3 * 224 * 224, 8))
