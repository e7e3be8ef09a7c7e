"""GraphSAGE with neighbour sampling on a random geometric graph."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def graph(n, seed):
    g = torch.Generator().manual_seed(seed)
    pos = torch.rand(n, 2, generator=g)
    order = pos[:, 0].argsort()
    pos = pos[order]
    offs = torch.randint(1, 40, (n, 12), generator=g)
    nbr = (torch.arange(n)[:, None] + offs) % n
    y = ((pos[:, 0] * 4).long() + (pos[:, 1] > 0.5).long() * 4).clamp(max=7)
    x = torch.cat([pos, torch.randn(n, 62, generator=g)], 1)
    return x, y, nbr.to(torch.int32)


class Sage(nn.Module):
    def __init__(self, d, h, c):
        super().__init__()
        self.s1, self.n1 = nn.Linear(d, h), nn.Linear(d, h, bias=False)
        self.s2, self.n2 = nn.Linear(h, c), nn.Linear(h, c, bias=False)

    def hidden(self, x, nb):
        return F.relu(self.s1(x) + self.n1(nb.mean(-2)))

    def forward(self, x0, x1, x2):
        h0 = self.hidden(x0, x1)
        h1 = self.hidden(x1, x2)
        return self.s2(h0) + self.n2(h1.mean(1))


def sample(nbr, nodes, k):
    cols = torch.randint(0, nbr.shape[1], (*nodes.shape, k))
    return torch.gather(nbr[nodes.flatten()].long(), 1, cols.view(-1, k)).view(*nodes.shape, k)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=30000)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--fanout", type=int, default=6)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y, nbr = graph(a.nodes, 1)
    net = Sage(64, 96, 8)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    step = 0
    for epoch in range(1000):
        hits = 0
        for nodes in torch.randperm(a.nodes).split(a.batch):
            n1 = sample(nbr, nodes, a.fanout)
            n2 = sample(nbr, n1, a.fanout)
            out = net(x[nodes], x[n1], x[n2])
            loss = F.cross_entropy(out, y[nodes])
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (out.detach().argmax(1) == y[nodes]).sum().item()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} acc {hits / a.nodes:.3f}", flush=True)


if __name__ == "__main__":
    main()
