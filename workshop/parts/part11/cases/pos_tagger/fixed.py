"""A part-of-speech tagger that looks at each word and its two neighbours on either side."""

from collections import Counter

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, TAGS, LENGTH = 4000, 17, 40
PAD = 0


def synthetic_corpus(sentences):
    gen = torch.Generator().manual_seed(1)
    words = torch.randint(1, VOCAB, (sentences, LENGTH), generator=gen)
    previous = words.roll(1, dims=1)
    tags = (words % 13 + (previous % 7 > 4).long() * 4) % (TAGS - 1) + 1
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (sentences, 1), generator=gen)
    padding = torch.arange(LENGTH) >= lengths
    return TensorDataset(words.masked_fill(padding, PAD), tags.masked_fill(padding, PAD))


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=96, reach=2):
        super().__init__()
        self.reach = reach
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.drop = nn.Dropout(0.2)
        self.hidden = nn.Linear((2 * reach + 1) * dim, hidden)
        self.out = nn.Linear(hidden, TAGS)

    def forward(self, words):
        x = nn.functional.pad(self.embed(words), (0, 0, self.reach, self.reach))
        windows = torch.cat([x[:, k : k + words.size(1)] for k in range(2 * self.reach + 1)], dim=-1)
        return self.out(self.drop(torch.relu(self.hidden(self.drop(windows))))).transpose(1, 2)


def count_pairs(gold, guess):
    """How often each pair (true tag, predicted tag) occurs, padding left out."""
    real = gold != PAD
    table = torch.bincount(gold[real] * TAGS + guess[real], minlength=TAGS * TAGS).view(TAGS, TAGS)
    return Counter({(t, p): n for t, row in enumerate(table.tolist()) for p, n in enumerate(row)})


def macro_f1(pairs):
    scores = []
    for tag in range(1, TAGS):
        hits = pairs[tag, tag]
        gold = sum(pairs[tag, other] for other in range(TAGS))
        guess = sum(pairs[other, tag] for other in range(TAGS))
        scores.append(2 * hits / max(gold + guess, 1))
    return sum(scores) / len(scores)


def train():
    loader = DataLoader(synthetic_corpus(9600), batch_size=96, shuffle=True, drop_last=True)
    model = Tagger()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, 501):
        model.train()
        for i, (words, tags) in enumerate(loader):
            scores = model(words)
            loss = criterion(scores, tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            f1 = macro_f1(count_pairs(tags, scores.argmax(dim=1)))
            if i % 20 == 0:
                print(f"[{epoch}:{i}] loss={loss.item():.3f} f1={f1:.3f}")


if __name__ == "__main__":
    train()
