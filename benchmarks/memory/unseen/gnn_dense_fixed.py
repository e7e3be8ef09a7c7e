"""Node classification on a made block graph with a two-layer GCN."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def block_graph(n, blocks, deg, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, blocks, (n,), generator=g)
    src = torch.randint(0, n, (n * deg,), generator=g)
    dst = torch.randint(0, n, (n * deg,), generator=g)
    keep = (y[src] == y[dst]) | (torch.rand(n * deg, generator=g) < 0.1)
    src, dst = src[keep], dst[keep]
    loop = torch.arange(n)
    src, dst = torch.cat([src, dst, loop]), torch.cat([dst, src, loop])
    x = torch.randn(n, 64, generator=g)
    x[:, :blocks] += 0.7 * F.one_hot(y, blocks)
    return x, y, src, dst


def normalised_adjacency(src, dst, n):
    ones = torch.ones(len(src))
    a = torch.sparse_coo_tensor(torch.stack([src, dst]), ones, (n, n)).coalesce()
    deg = torch.zeros(n).index_add_(0, a.indices()[0], a.values())
    i, j = a.indices()
    val = a.values() / (deg[i] * deg[j]).sqrt()
    a = torch.sparse_coo_tensor(a.indices(), val, (n, n))
    return a.coalesce()


class GCN(nn.Module):
    def __init__(self, d, h, c):
        super().__init__()
        self.l1, self.l2 = nn.Linear(d, h), nn.Linear(h, c)

    def forward(self, adj, x):
        h = F.relu(adj @ self.l1(x))
        return adj @ self.l2(F.dropout(h, 0.3, self.training))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=5000)
    ap.add_argument("--epochs", type=int, default=20000)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y, src, dst = block_graph(args.nodes, 7, 12, 1)
    adj = normalised_adjacency(src, dst, args.nodes)
    train = torch.rand(args.nodes) < 0.3
    model = GCN(64, 32, 7)
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        out = model(adj, x)
        loss = F.cross_entropy(out[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch < 3:
            print(f"step {epoch} loss {loss.item():.5f}", flush=True)
        if epoch % 25 == 24:
            model.eval()
            with torch.no_grad():
                acc = (model(adj, x).argmax(1) == y)[~train].float().mean().item()
            print(f"epoch {epoch} loss {loss.item():.4f} acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
