"""Predict clicks on advertisements from hashed categorical features; reports log loss and AUC while it trains."""

from collections import deque

import numpy as np
import torch
from torch import nn

FIELDS = 16
BUCKETS = 2_000


class ClickStream:
    def __init__(self, batch, seed=0):
        self.batch = batch
        self.rng = np.random.default_rng(seed)
        self.effect = self.rng.normal(0, 0.5, (FIELDS, BUCKETS))

    def __iter__(self):
        columns = np.arange(FIELDS)
        while True:
            ids = (self.rng.random((self.batch, FIELDS)) ** 3 * BUCKETS).astype(np.int64)
            p = 1 / (1 + np.exp(2 - self.effect[columns, ids].sum(1)))
            clicks = (self.rng.random(self.batch) < p).astype(np.float32)
            yield torch.from_numpy(ids), torch.from_numpy(clicks)


class ClickModel(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.table = nn.Embedding(FIELDS * BUCKETS, dim)
        self.register_buffer("offset", torch.arange(FIELDS) * BUCKETS)
        self.wide = nn.Embedding(FIELDS * BUCKETS, 1)
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * dim, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def forward(self, ids):
        ids = ids + self.offset
        return (self.deep(self.table(ids).flatten(1)) + self.wide(ids).sum(1)).squeeze(1)


class Scores:
    """Area under the curve of the last hundred batches."""

    def __init__(self):
        self.scores, self.labels = deque(maxlen=100), deque(maxlen=100)

    def add(self, scores, labels):
        self.scores.append(scores.detach().numpy())
        self.labels.append(labels.numpy())

    def auc(self):
        scores, labels = np.concatenate(self.scores), np.concatenate(self.labels)
        ranks = np.argsort(np.argsort(scores)) + 1
        positive = labels.sum()
        negative = len(labels) - positive
        return (ranks[labels > 0].sum() - positive * (positive + 1) / 2) / max(positive * negative, 1)


def main():
    torch.manual_seed(0)
    model = ClickModel()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    bce = nn.BCEWithLogitsLoss()
    seen = Scores()
    for step, (ids, clicks) in enumerate(ClickStream(batch=512)):
        logits = model(ids)
        loss = bce(logits, clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.add(logits, clicks)
        if step % 100 == 0:
            print(f"step {step}  log loss {loss.item():.4f}  auc {seen.auc():.4f}")


if __name__ == "__main__":
    main()
