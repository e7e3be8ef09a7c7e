"""A step of the optimizer for every four batches, workers, gradient clipping, in a class of its own."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.005)
        return super().__getitem__(index)


class Trainer:
    every = 4

    def __init__(self):
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 10))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        data = Slow(torch.randn(640, 3, 16, 16), torch.randint(0, 10, (640,)))
        self.loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)

    def fit(self):
        while True:
            for number, (inputs, labels) in enumerate(self.loader, 1):
                loss = self.criterion(self.model(inputs.to("cpu")), labels.to("cpu")) / self.every
                loss.backward()
                if number % self.every == 0:
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.optimizer.zero_grad()


if __name__ == "__main__":
    Trainer().fit()
