"""Click prediction on hashed categorical features: shared embedding table plus an MLP."""

import time

import numpy as np
import torch
import torch.nn as nn

CONFIG = dict(
    hash_buckets=250_000,
    fields=16,
    dim=24,
    hidden=(256, 128),
    batch_size=768,
    impressions=24_000,
    lr=0.02,
    epochs=1000,
    seed=3,
)


def synth_impressions(cfg):
    rng = np.random.default_rng(cfg["seed"])
    n, f = cfg["impressions"], cfg["fields"]
    raw = rng.zipf(1.3, size=(n, f)) % 50_000
    salt = np.arange(f, dtype=np.int64) * 1_000_003
    ids = (raw.astype(np.int64) * 2_654_435_761 + salt) % cfg["hash_buckets"]
    propensity = rng.normal(size=cfg["hash_buckets"]).astype(np.float32)
    score = propensity[ids].sum(1) / np.sqrt(f) - 1.0
    clicks = (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(np.float32)
    return torch.from_numpy(ids), torch.from_numpy(clicks)


class ClickModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.table = nn.Embedding(cfg["hash_buckets"], cfg["dim"], sparse=True)
        nn.init.normal_(self.table.weight, std=0.05)
        width = cfg["fields"] * cfg["dim"]
        layers = []
        for hidden in cfg["hidden"]:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        layers.append(nn.Linear(width, 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, ids):
        emb = self.table(ids)
        total = emb.sum(1)
        pairwise = 0.5 * (total.pow(2) - emb.pow(2).sum(1)).sum(1)
        return self.mlp(emb.flatten(1)).squeeze(1) + pairwise


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["seed"])
        self.ids, self.clicks = synth_impressions(cfg)
        self.split = int(0.9 * len(self.ids))
        self.model = ClickModel(cfg)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=cfg["lr"])
        self.criterion = nn.BCEWithLogitsLoss()

    def batches(self):
        order = torch.randperm(self.split)
        for chunk in order.split(self.cfg["batch_size"]):
            yield self.ids[chunk], self.clicks[chunk]

    def train_epoch(self):
        self.model.train()
        total, seen = 0.0, 0
        for ids, clicks in self.batches():
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(ids), clicks)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(ids)
            seen += len(ids)
        return total / seen

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        scores = self.model(self.ids[self.split :])
        clicks = self.clicks[self.split :]
        ranks = scores.argsort().argsort().float() + 1
        pos = clicks.sum()
        neg = len(clicks) - pos
        auc = (ranks[clicks == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)
        return self.criterion(scores, clicks).item(), auc.item()

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            start = time.time()
            train_loss = self.train_epoch()
            val_loss, auc = self.evaluate()
            print(
                f"[{epoch:04d}] train {train_loss:.5f} val {val_loss:.5f} auc {auc:.4f} ({time.time() - start:.1f}s)",
                flush=True,
            )


if __name__ == "__main__":
    Trainer(CONFIG).fit()
