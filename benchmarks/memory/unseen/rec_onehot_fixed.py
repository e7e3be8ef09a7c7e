"""Recommender: two-tower click model, users and items as categorical features."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_USERS, N_ITEMS, DIM = 1500, 12000, 48


class Clicks(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.user = torch.randint(0, N_USERS, (n,), generator=g)
        self.item = torch.randint(0, N_ITEMS, (n,), generator=g)
        bias = torch.randn(N_ITEMS, generator=g)
        self.label = (bias[self.item] + 0.5 * torch.randn(n, generator=g) > 0).float()

    def __len__(self):
        return len(self.user)

    def __getitem__(self, i):
        return self.user[i], self.item[i], self.label[i]


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Parameter(0.1 * torch.randn(N_USERS, DIM))
        self.item = nn.Parameter(0.1 * torch.randn(N_ITEMS, DIM))
        self.mlp = nn.Sequential(nn.Linear(2 * DIM, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        eu = F.embedding(u, self.user)
        ei = F.embedding(i, self.item)
        return self.mlp(torch.cat([eu, ei], dim=1)).squeeze(1)


def auc_like(model, ds):
    with torch.no_grad():
        p = model(ds.user[:512], ds.item[:512])
    return ((p > 0).float() == ds.label[:512]).float().mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train, val = Clicks(30000, 1), Clicks(2000, 2)
    model = TwoTower()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03)
    loader = DataLoader(train, batch_size=768, shuffle=True, drop_last=True)
    step = 0
    for epoch in range(300):
        for u, i, y in loader:
            loss = F.binary_cross_entropy_with_logits(model(u, i), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} loss {loss.item():.4f} acc {auc_like(model, val):.3f}", flush=True)


if __name__ == "__main__":
    main()
