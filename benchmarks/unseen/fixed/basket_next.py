"""Recommends the next product from what a household bought before."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    """What a run can be told."""

    households: int = 12_000
    products: int = 3_000
    purchases: int = 1_500_000
    history: int = 24
    dim: int = 48
    batch_size: int = 64
    lr: float = 1e-3
    epochs: int = 200
    log_every: int = 50


def till_receipts(cfg):
    """Make purchases in the order of their time, as the tills report them: (household, product)."""
    rng = np.random.default_rng(3)
    household = rng.integers(0, cfg.households, cfg.purchases)
    taste = rng.integers(0, cfg.products, cfg.households)
    product = (taste[household] + rng.geometric(0.02, cfg.purchases)) % cfg.products
    return household, product


class PurchaseHistory(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg
        household, product = till_receipts(cfg)
        self.product = product[household.argsort(kind="stable")]
        self.starts = np.searchsorted(np.sort(household), np.arange(cfg.households + 1))

    def __len__(self):
        return self.cfg.households

    def __getitem__(self, index):
        bought = self.product[self.starts[index] : self.starts[index + 1]]
        end = int(torch.randint(1, len(bought), ()))
        past = bought[max(0, end - self.cfg.history) : end] + 1
        padded = np.zeros(self.cfg.history, dtype=np.int64)
        padded[-len(past) :] = past
        return padded, bought[end]


class NextProduct(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.products + 1, cfg.dim, padding_idx=0)
        self.place = nn.Parameter(torch.zeros(cfg.history, 1))
        self.mix = nn.Sequential(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(), nn.Linear(2 * cfg.dim, cfg.dim))
        self.out = nn.Linear(cfg.dim, cfg.products)

    def forward(self, past):
        weight = self.place.masked_fill((past == 0).unsqueeze(-1), -1e9).softmax(dim=1)
        taste = (self.embed(past) * weight).sum(dim=1)
        return self.out(taste + self.mix(taste))


def train(cfg):
    torch.manual_seed(0)
    loader = DataLoader(PurchaseHistory(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = NextProduct(cfg)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    step = 0
    for epoch in range(cfg.epochs):
        for past, following in loader:
            optimizer.zero_grad()
            loss = criterion(model(past), following)
            loss.backward()
            optimizer.step()
            step += 1
            if step % cfg.log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    train(Config())
