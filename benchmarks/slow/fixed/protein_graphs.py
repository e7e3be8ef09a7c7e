"""Says whether a protein is an enzyme, with message passing on its contact graph."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

AMINO_ACIDS = 20
CUTOFF = 8.0


class ContactGraphs(Dataset):
    """Random coils; those of enzymes are folded tighter and have other residues."""

    def __init__(self, proteins=800):
        rng = np.random.default_rng(2)
        self.graphs = []
        for n in range(proteins):
            enzyme = n % 2
            residues = int(rng.integers(100, 220))
            steps = rng.normal(0, 3.8 if enzyme else 4.6, (residues, 3))
            place = np.cumsum(steps, axis=0) * 0.6
            distance = np.linalg.norm(place[:, None] - place[None], axis=-1)
            edges = np.argwhere((distance < CUTOFF) & (distance > 0))
            kinds = rng.integers(enzyme, AMINO_ACIDS, residues)
            self.graphs.append((kinds, edges, float(enzyme)))

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, n):
        return self.graphs[n]


def merge(graphs):
    """Joins the graphs to one, whose edges are sorted by where they end."""
    kinds = np.concatenate([kind for kind, *_ in graphs])
    sizes = [len(kind) for kind, *_ in graphs]
    offsets = np.cumsum([0, *sizes[:-1]])
    edges = np.concatenate([edge + offset for (_, edge, _), offset in zip(graphs, offsets, strict=True)])
    edges = torch.from_numpy(edges[np.lexsort((edges[:, 0], edges[:, 1]))]).T
    labels = torch.tensor([label for *_, label in graphs])
    owner = torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes))
    return torch.from_numpy(kinds), edges[0], edges[1], owner, labels


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())

    def forward(self, x, source, target):
        gathered = torch.zeros_like(x).index_add_(0, target, self.message(x)[source])
        return x + self.update(torch.cat([x, gathered], 1))


class EnzymeNet(nn.Module):
    def __init__(self, width=24, depth=2):
        super().__init__()
        self.embed = nn.Embedding(AMINO_ACIDS, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, kinds, source, target, owner, count):
        x = self.embed(kinds)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x, source, target))
        pooled = x.new_zeros(count, x.shape[1]).index_add_(0, owner, x)
        return self.head(pooled / torch.bincount(owner, minlength=count)[:, None]).squeeze(1)


def main():
    torch.manual_seed(0)
    train = DataLoader(
        ContactGraphs(), batch_size=16, shuffle=True, num_workers=2, collate_fn=merge, persistent_workers=True
    )
    model = EnzymeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(1000):
        hits, total = 0, 0
        for kinds, source, target, owner, label in train:
            logit = model(kinds, source, target, owner, len(label))
            loss = nn.functional.binary_cross_entropy_with_logits(logit, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += int(((logit > 0) == (label > 0.5)).sum())
            total += len(label)
        print(f"{epoch}: {hits / total:.1%} right")


if __name__ == "__main__":
    main()
