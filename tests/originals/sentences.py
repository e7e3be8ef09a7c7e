"""Sentences of different lengths and of three kinds, always the same ones, filled up to the longest of a batch."""

import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(6)
        lengths = torch.randint(5, 60, (160,), generator=dice).tolist()
        self.sentences = [torch.randint(1, 5000, (length,), generator=dice) for length in lengths]

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.sentences[index], index % 3


def together(items):
    sentences, kinds = zip(*items, strict=True)
    return pad_sequence(sentences, batch_first=True), torch.tensor(kinds)


def main():
    sentences = Sentences()
    loader = DataLoader(sentences, 8, shuffle=True, collate_fn=together)
    model = nn.Sequential(nn.Embedding(5000, 16), nn.AdaptiveAvgPool2d((1, 16)), nn.Flatten(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
