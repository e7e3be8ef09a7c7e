"""Matrix factorisation with a small head on implicit film ratings, sparse embeddings."""

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    users: int = 250_000
    films: int = 20_000
    dim: int = 32
    batch: int = 2048
    lr: float = 2e-3
    seed: int = 3


class Recommender(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = nn.Embedding(cfg.users, cfg.dim, sparse=True)
        self.film = nn.Embedding(cfg.films, cfg.dim, sparse=True)
        self.head = nn.Sequential(
            nn.Linear(3 * cfg.dim, 192), nn.ReLU(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 1)
        )
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.film.weight, std=0.05)

    def forward(self, users, films):
        u, f = self.user(users), self.film(films)
        return self.head(torch.cat([u, f, u * f], dim=1)).squeeze(1)


def ratings(cfg):
    """Yield endless batches (users, films, liked); popular films are drawn more often."""
    g = torch.Generator().manual_seed(cfg.seed)
    taste_u = torch.randn(cfg.users, 4, generator=g)
    taste_f = torch.randn(cfg.films, 4, generator=g)
    while True:
        users = torch.randint(0, cfg.users, (cfg.batch,), generator=g)
        films = (torch.rand(cfg.batch, generator=g) ** 2 * cfg.films).long()
        liked = ((taste_u[users] * taste_f[films]).sum(1) + torch.randn(cfg.batch, generator=g) > 0).float()
        yield users, films, liked


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    model = Recommender(cfg)
    tables = torch.optim.SparseAdam([model.user.weight, model.film.weight], lr=cfg.lr)
    dense = torch.optim.Adam(model.head.parameters(), lr=cfg.lr)
    bce = nn.BCEWithLogitsLoss()
    good = None
    smooth = math.log(2)

    for step, (users, films, liked) in enumerate(ratings(cfg)):
        loss = bce(model(users, films), liked)
        value = loss.item()
        if not math.isfinite(value) or value > 5 * smooth:
            print(f"step {step}: loss {value}, going back to the last good state")
            for part, state in zip((model, tables, dense), good, strict=True):
                part.load_state_dict(state)
            continue
        tables.zero_grad()
        dense.zero_grad()
        loss.backward()
        tables.step()
        dense.step()
        if step % 1000 == 0:
            good = copy.deepcopy([part.state_dict() for part in (model, tables, dense)])
        smooth = 0.98 * smooth + 0.02 * value
        if step % 100 == 0:
            print(f"{step:7d}  bce {smooth:.4f}")


if __name__ == "__main__":
    main()
