"""A small language model on windows of a text, at places that are drawn anew each time."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE, LENGTH = 3000, 48


class Windows(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(5)
        often = 1 / torch.arange(1.0, SIZE + 1)
        self.text = torch.multinomial(often, 20_000, replacement=True, generator=dice)

    def __len__(self):
        return 128

    def __getitem__(self, index):
        time.sleep(0.002)
        begin = int(torch.randint(len(self.text) - LENGTH, ()))
        window = self.text[begin : begin + LENGTH + 1]
        return window[:-1], window[1:]


def main():
    windows = Windows()
    loader = DataLoader(windows, 8, shuffle=True)
    model = nn.Sequential(nn.Embedding(SIZE, 16), nn.Linear(16, SIZE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
