"""Clouds of points around four outlines, some of the points of each, turned by an angle that is drawn anew."""

import math
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(15)
        angle = math.tau * torch.rand(160, 60, generator=dice)
        far = 1 + 0.4 * torch.sin((2 + torch.arange(160) % 4)[:, None] * angle)
        self.clouds = torch.stack([far * angle.cos(), far * angle.sin()], 2)

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, index):
        time.sleep(0.002)
        some = self.clouds[index, torch.randperm(60)[:20]]
        angle = math.tau * torch.rand(())
        way = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()])
        return some @ way.reshape(2, 2), index % 4


def main():
    loader = DataLoader(Clouds(), 10, shuffle=True)
    each, all_of_them = nn.Sequential(nn.Linear(2, 32), nn.ReLU()), nn.Linear(32, 4)
    model = nn.ModuleList([each, all_of_them])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(all_of_them(each(inputs).amax(1)), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
