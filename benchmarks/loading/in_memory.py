"""Data that are in memory already."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from training import network, train

if __name__ == "__main__":
    data = TensorDataset(torch.randn(4096, 64), torch.arange(4096) % 4)
    train(DataLoader(data, batch_size=16, shuffle=True), network(64, 1024), passes=20)
