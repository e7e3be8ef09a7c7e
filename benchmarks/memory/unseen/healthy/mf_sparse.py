"""Matrix factorisation with negative sampling, sparse embedding gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
USERS, ITEMS, DIM = 20000, 30000, 64


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Embedding(USERS, DIM, sparse=True)
        self.i = nn.Embedding(ITEMS, DIM, sparse=True)
        for e in (self.u, self.i):
            nn.init.normal_(e.weight, std=0.05)

    def forward(self, u, pos, neg):
        eu = self.u(u)
        sp = (eu * self.i(pos)).sum(-1)
        sn = torch.einsum("bd,bkd->bk", eu, self.i(neg))
        return sp, sn


def interactions(n, seed):
    g = torch.Generator().manual_seed(seed)
    u = torch.randint(0, USERS, (n,), generator=g)
    i = (u * 3 // 2 + torch.randint(0, 50, (n,), generator=g)) % ITEMS
    return u.to(torch.int32), i.to(torch.int32)


@torch.no_grad()
def hit_rate(model, u, i, k=20, batch=64):
    hits = 0
    for b in range(0, 512, batch):
        s = model.u(u[b : b + batch].long()) @ model.i.weight.t()
        top = s.topk(k, dim=1).indices
        hits += (top == i[b : b + batch, None]).any(1).sum().item()
    return hits / 512


def main():
    torch.manual_seed(0)
    u, i = interactions(400000, 1)
    model = Factors()
    opt = torch.optim.SparseAdam(list(model.parameters()), lr=5e-3)
    step = 0
    for epoch in range(300):
        for idx in torch.randperm(len(u)).split(2048):
            neg = torch.randint(0, ITEMS, (len(idx), 8))
            sp, sn = model(u[idx].long(), i[idx].long(), neg)
            loss = F.softplus(-sp).mean() + F.softplus(sn).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} hit@20 {hit_rate(model, u, i):.3f}", flush=True)


if __name__ == "__main__":
    main()
