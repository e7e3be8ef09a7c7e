"""Spot spoken keywords in one-second log-mel patches with a small convolutional net.

The machine may be taken away at any time, so that a checkpoint is written at least every hundred steps.
"""

import gzip
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class Callback:
    def on_step_end(self, trainer):
        pass


class Printer(Callback):
    def on_step_end(self, trainer):
        if trainer.step % 50 == 0:
            print(f"step {trainer.step}: loss {trainer.loss:.4f}")


class Checkpoint(Callback):
    def __init__(self, folder, every):
        self.folder, self.every = folder, every

    def on_step_end(self, trainer):
        if trainer.step % self.every:
            return
        state = {
            "step": trainer.step,
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
        }
        with gzip.open(self.folder / "last.pt.gz", "wb") as handle:
            torch.save(state, handle)


class KeywordNet(nn.Module):
    def __init__(self, words=35):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, (7, 5), stride=(1, 2), padding=(3, 2))
        self.conv2 = nn.Conv2d(24, 32, 3, stride=2, padding=1)
        self.conv3 = nn.Conv2d(32, 48, 3, stride=2, padding=1)
        self.fc = nn.Linear(48 * 10 * 13, 160)
        self.out = nn.Linear(160, words)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x))
        return self.out(F.relu(self.fc(x.flatten(1))))


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.step, self.loss = 0, 0.0

    def fit(self, batches):
        for patches, words in batches:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(patches), words)
            loss.backward()
            self.optimizer.step()
            self.step += 1
            self.loss = loss.item()
            for callback in self.callbacks:
                callback.on_step_end(self)


def utterances(batch, words=35, pool=2000):
    """Endless batches from a pool of 40 x 101 patches, a chirp of its own for each word."""
    g = torch.Generator().manual_seed(9)
    labels = torch.randint(0, words, (pool,), generator=g)
    mel, frame = torch.arange(40.0)[None, :, None], torch.arange(101.0)[None, None, :]
    track = 20 + 15 * torch.sin(frame / (5 + labels[:, None, None]) + labels[:, None, None])
    patches = torch.exp(-((mel - track) ** 2) / 8) + 0.3 * torch.randn(pool, 40, 101, generator=g)
    while True:
        idx = torch.randint(0, pool, (batch,), generator=g)
        yield patches[idx].unsqueeze(1), labels[idx]


if __name__ == "__main__":
    torch.manual_seed(0)
    net = KeywordNet()
    adam = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    folder = Path("keywords")
    folder.mkdir(exist_ok=True)
    Trainer(net, adam, [Printer(), Checkpoint(folder, every=50)]).fit(utterances(batch=48))
