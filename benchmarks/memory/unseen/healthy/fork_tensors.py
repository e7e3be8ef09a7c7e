"""Tabular classifier; tensors are made once and read by two forked workers."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


class Table(Dataset):
    def __init__(self, n, d=64):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, d, generator=g)
        self.y = (self.x[:, :4].sum(1) > 0).long()
        self.noise = 0.05

    def __len__(self):
        return len(self.y)

    def __getitems__(self, idx):
        x = self.x[idx]
        x = x + self.noise * torch.randn_like(x)
        return list(zip(x, self.y[idx]))


class Block(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(h), nn.Linear(h, 2 * h), nn.GELU(), nn.Linear(2 * h, h))

    def forward(self, x):
        return x + self.f(x)


def run_epoch(model, loader, opt=None, first=0):
    total = hits = n = 0
    with torch.set_grad_enabled(opt is not None):
        for k, (x, y) in enumerate(loader):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
                if first + k < 3:
                    print(f"step {first + k} loss {loss.item():.5f}", flush=True)
            total += loss.item() * len(y)
            hits += (out.argmax(1) == y).sum().item()
            n += len(y)
    return total / n, hits / n


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train, val = random_split(Table(60000), [56000, 4000])
    kw = dict(batch_size=512, num_workers=2, multiprocessing_context="fork", persistent_workers=True)
    tl, vl = DataLoader(train, shuffle=True, **kw), DataLoader(val, **kw)
    model = nn.Sequential(nn.Linear(64, 160), Block(160), Block(160), nn.Linear(160, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=3)
    for epoch in range(300):
        tr = run_epoch(model, tl, opt, epoch * len(tl))
        va = run_epoch(model, vl)
        sched.step(va[0])
        print(f"epoch {epoch} train {tr[0]:.4f}/{tr[1]:.3f} val {va[0]:.4f}/{va[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
