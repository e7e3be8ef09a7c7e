"""Click-through prediction on a wide table (FM part + deep part)."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_table(rows=60_000, n_num=13, cards=(50, 200, 1000, 24, 7, 12, 500, 90), seed=11):
    rng = np.random.default_rng(seed)
    num = rng.normal(size=(rows, n_num)).astype(np.float32)
    cat = np.stack([rng.integers(0, c, rows) for c in cards], 1)
    score = num @ rng.normal(size=n_num) * 0.4
    for j, c in enumerate(cards):
        score += rng.normal(size=c)[cat[:, j]] * 0.5
    y = (score + rng.logistic(size=rows) > 1.0).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y), cards


class DeepFM(nn.Module):
    def __init__(self, n_num, cards, dim=16, hidden=(256, 128)):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, *np.cumsum(cards)[:-1]]))
        total = int(sum(cards))
        self.emb = nn.Embedding(total, dim)
        self.linear = nn.Embedding(total, 1)
        nn.init.normal_(self.emb.weight, std=0.01)
        nn.init.zeros_(self.linear.weight)
        self.num_linear = nn.Linear(n_num, 1)
        layers, width = [], n_num + dim * len(cards)
        for h in hidden:
            layers += [nn.Linear(width, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.1)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, num, cat):
        idx = cat + self.offsets
        e = self.emb(idx)
        first = self.linear(idx).sum(1) + self.num_linear(num)
        second = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
        deep = self.deep(torch.cat([num, e.flatten(1)], 1))
        return (first + second + deep).squeeze(1)


def roc_auc(scores, labels):
    order = torch.argsort(scores)
    ranks = torch.empty_like(scores, dtype=torch.double)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=torch.double)
    pos = labels > 0.5
    n_pos, n_neg = pos.sum().item(), (~pos).sum().item()
    if n_pos == 0 or n_neg == 0:
        return 0.5
    return ((ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


class AUCMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores.detach())
        self.labels.append(labels)

    def compute(self):
        return roc_auc(torch.cat(self.scores), torch.cat(self.labels))


def train_epoch(model, loader, optimizer, meter, history):
    model.train()
    meter.reset()
    loss_sum, seen = 0.0, 0
    for num, cat, y in loader:
        logits = model(num, cat)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(logits, y)
        history["train_auc"] = meter.compute()
        loss_sum += loss.item() * len(y)
        seen += len(y)
    history["train_loss"] = loss_sum / seen
    return history


def main():
    torch.manual_seed(5)
    num, cat, y, cards = make_table()
    loader = DataLoader(
        TensorDataset(num, cat, y),
        batch_size=None,
        sampler=torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(y), batch_size=512, drop_last=True),
    )
    model = DeepFM(num.size(1), cards)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.5)
    meter, history = AUCMeter(), {}
    for epoch in range(1000):
        t = time.time()
        train_epoch(model, loader, optimizer, meter, history)
        scheduler.step()
        print(
            "epoch %d loss %.4f auc %.4f time %.2f"
            % (epoch, history["train_loss"], history["train_auc"], time.time() - t),
            flush=True,
        )


if __name__ == "__main__":
    main()
