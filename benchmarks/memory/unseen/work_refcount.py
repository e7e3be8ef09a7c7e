"""Click-log classifier; log entries are parsed records, batches come from loader workers."""

import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ClickLog(Dataset):
    def __init__(self, n, seed=0):
        rnd = random.Random(seed)
        self.rows = []
        for k in range(n):
            feats = [rnd.random() for _ in range(16)]
            label = int(feats[0] + feats[3] > 1.0)
            self.rows.append({"x": feats, "y": label})  # fault

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        return torch.tensor(r["x"]), r["y"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, x):
        return self.f(x)


def train(epochs=200, batch=2048):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ds = ClickLog(120000)
    loader = DataLoader(
        ds, batch_size=batch, shuffle=True, num_workers=2, multiprocessing_context="fork", persistent_workers=True
    )
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    lossf = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(epochs):
        hits = seen = 0
        for x, y in loader:
            out = model(x)
            loss = lossf(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (out.argmax(1) == y).sum().item()
            seen += len(y)
            if step < 3:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} acc {hits / seen:.4f}", flush=True)


if __name__ == "__main__":
    train()
