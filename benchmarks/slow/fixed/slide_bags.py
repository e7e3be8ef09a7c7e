"""Finds tumours on pathology slides: gated attention over the bag of all the tile features of a slide."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = 256


class Slides(Dataset):
    """A bag of 2000 to 5000 feature vectors for each slide, held in memory."""

    def __init__(self, slides=96):
        torch.manual_seed(13)
        self.tumour = (torch.rand(slides) < 0.5).float()
        direction = F.normalize(torch.randn(FEATURES), dim=0)
        self.bags = []
        for tumour in self.tumour:
            bag = torch.empty(int(torch.randint(2000, 5000, ())), FEATURES).uniform_(-1, 1)
            bag[: int(40 * tumour)] += 3 * direction
            self.bags.append(bag)

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, n):
        return self.bags[n], self.tumour[n]


def as_lists(samples):
    bags, tumours = zip(*samples, strict=True)
    return list(bags), torch.stack(tumours)


class GatedAttention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.look = nn.Linear(FEATURES, 2 * width)
        self.score = nn.Linear(width, 1)
        self.decide = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, bag):
        content, gate = self.look(bag).chunk(2, dim=1)
        weight = self.score(torch.tanh(content) * torch.sigmoid(gate)).softmax(0)
        return self.decide(weight.T @ bag)[0, 0]


def main():
    loader = DataLoader(Slides(), batch_size=8, shuffle=True, collate_fn=as_lists)
    model = GatedAttention()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, weight_decay=1e-5)
    for epoch in range(2000):
        right = 0
        for bags, tumour in loader:
            logit = torch.stack([model(bag) for bag in bags])
            loss = F.binary_cross_entropy_with_logits(logit, tumour)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += int(((logit > 0) == (tumour > 0.5)).sum())
        print(f"epoch {epoch}: {right} of {len(loader.dataset)} slides right")


if __name__ == "__main__":
    main()
