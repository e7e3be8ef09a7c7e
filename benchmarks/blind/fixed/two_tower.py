"""Two-tower retrieval model on implicit feedback with in-batch negatives."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import IterableDataset, DataLoader


class ClickStream(IterableDataset):
    """Yields ready batches of (user, history, clicked item)."""

    def __init__(self, n_users, n_items, batch_size, batches, hist=20, seed=3):
        rng = np.random.default_rng(seed)
        n = batches * batch_size
        taste = rng.integers(0, n_items, n_users)
        self.users = torch.from_numpy(rng.integers(0, n_users, n))
        centre = torch.from_numpy(taste)[self.users]
        noise = torch.from_numpy(rng.integers(-50, 50, (n, hist + 1)))
        near = (centre[:, None] + noise) % n_items
        self.hist, self.items = near[:, :hist].contiguous(), near[:, hist].contiguous()
        self.batch_size, self.batches = batch_size, batches

    def __iter__(self):
        order = torch.randperm(len(self.users))
        for chunk in order.split(self.batch_size):
            yield self.users[chunk], self.hist[chunk], self.items[chunk]

    def __len__(self):
        return self.batches


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim=32, hidden=256, out=64):
        super().__init__()
        self.user_emb = nn.Embedding(n_users, dim)
        self.item_emb = nn.Embedding(n_items, dim, sparse=True)
        nn.init.normal_(self.user_emb.weight, std=0.05)
        nn.init.normal_(self.item_emb.weight, std=0.05)
        self.user_mlp = mlp(2 * dim, hidden, out)
        self.item_mlp = mlp(dim, hidden, out)

    def forward(self, user, hist, item):
        profile = self.item_emb(hist).mean(1)
        u = self.user_mlp(torch.cat([self.user_emb(user), profile], -1))
        v = self.item_mlp(self.item_emb(item))
        return F.normalize(u, dim=-1), F.normalize(v, dim=-1)


def in_batch_softmax(u, v, item, temperature=0.07):
    logits = u @ v.t() / temperature
    same = item[:, None] == item[None, :]
    same.fill_diagonal_(False)
    logits = logits.masked_fill(same, -1e4)
    target = torch.arange(len(u))
    with torch.no_grad():
        hit = (logits.argmax(1) == target).float().mean()
    return F.cross_entropy(logits, target), hit


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--users", type=int, default=10_000)
    p.add_argument("--items", type=int, default=200_000)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--batches", type=int, default=60)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--epochs", type=int, default=1000)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    stream = ClickStream(args.users, args.items, args.batch_size, args.batches)
    loader = DataLoader(stream, batch_size=None)
    model = TwoTower(args.users, args.items)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        tic = time.perf_counter()
        loss_sum, hit_sum = torch.zeros(()), torch.zeros(())
        for user, hist, item in loader:
            u, v = model(user, hist, item)
            loss, hit = in_batch_softmax(u, v, item)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
            hit_sum += hit
        n = len(loader)
        print(
            f"epoch {epoch:3d} | loss {loss_sum.item() / n:.4f} | hit@1 {hit_sum.item() / n:.4f} "
            f"| {time.perf_counter() - tic:.2f}s",
            flush=True,
        )


if __name__ == "__main__":
    main()
