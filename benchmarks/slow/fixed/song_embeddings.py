"""Song embeddings from listening sessions, skip-gram with negative samples."""

import argparse

import torch
from torch import nn
from torch.nn.functional import logsigmoid, normalize
from torch.utils.data import DataLoader, IterableDataset


class Sessions(IterableDataset):
    """Pairs (song, song heard next to it): songs of the same mood follow each other."""

    def __init__(self, songs, moods, chunk):
        self.songs, self.moods, self.chunk = songs, moods, chunk

    def __iter__(self):
        per_mood = self.songs // self.moods
        while True:
            mood = torch.randint(0, self.moods, (self.chunk,))
            first = mood * per_mood + torch.randint(0, per_mood, (self.chunk,))
            second = mood * per_mood + torch.randint(0, per_mood, (self.chunk,))
            stray = torch.rand(self.chunk) < 0.1
            yield first, torch.where(stray, torch.randint(0, self.songs, (self.chunk,)), second)


class SkipGram(nn.Module):
    def __init__(self, songs, dim):
        super().__init__()
        self.centre = nn.Embedding(songs, dim)
        self.context = nn.Embedding(songs, dim)
        nn.init.uniform_(self.centre.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.context.weight)

    def forward(self, first, second, negative):
        c = self.centre(first)
        positive = (c * self.context(second)).sum(1)
        against = torch.bmm(self.context(negative), c.unsqueeze(2)).squeeze(2)
        return -(logsigmoid(positive) + logsigmoid(-against).sum(1)).mean()


@torch.no_grad()
def neighbour_purity(model, moods, k=10):
    """The share of a song's nearest neighbours that have its mood."""
    e = normalize(model.centre.weight, dim=1)
    similarity = e @ e.t()
    similarity.fill_diagonal_(-1)
    nearest = similarity.topk(k, dim=1).indices
    mood = torch.arange(len(e)) // (len(e) // moods)
    return (mood[nearest] == mood[:, None]).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--songs", type=int, default=6000)
    parser.add_argument("--moods", type=int, default=60)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--negatives", type=int, default=8)
    parser.add_argument("--report-every", type=int, default=500)
    args = parser.parse_args()

    torch.manual_seed(4)
    loader = DataLoader(Sessions(args.songs, args.moods, args.batch), batch_size=None)
    model = SkipGram(args.songs, args.dim)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    mean = 0.0
    for step, (first, second) in enumerate(loader, start=1):
        negative = torch.randint(0, args.songs, (args.batch, args.negatives))
        loss = model(first, second, negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean += (loss.item() - mean) / min(step, 200)
        if step % args.report_every == 0:
            print(f"{step}: loss {mean:.3f}, purity {neighbour_purity(model, args.moods):.3f}")


if __name__ == "__main__":
    main()
