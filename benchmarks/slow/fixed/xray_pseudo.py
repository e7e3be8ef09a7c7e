"""Semi-supervised chest film triage (FixMatch-like): few labelled films, many without a label."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 48
THRESHOLD = 0.8


class Films(Dataset):
    """Made-up films: two lungs, and a shadow in one of them where something is wrong."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, SIDE)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        lungs = torch.exp(-(((x.abs() - 0.45) / 0.3) ** 2 + (y / 0.7) ** 2))
        self.label = torch.randint(2, (count,), generator=g)
        where = torch.rand(count, 2, generator=g) - 0.5
        shadow = torch.exp(-((x - where[:, :1, None]) ** 2 + (y - where[:, 1:, None]) ** 2) / 0.02)
        grain = 0.2 * torch.randn(count, SIDE, SIDE, generator=g)
        self.films = (1 - lungs + 0.5 * self.label[:, None, None] * shadow + grain)[:, None]

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        film = self.films[i]
        if torch.rand(()) < 0.5:
            film = film.flip(-1)
        weak = film.roll(int(torch.randint(-3, 4, ())), dims=-1)
        strong = weak * (0.7 + 0.6 * torch.rand(())) + 0.1 * torch.randn_like(weak)
        return weak, strong, self.label[i]


def net(width=16):
    layers, last = [], 1
    for k in range(3):
        layers += [nn.Conv2d(last, width << k, 3, padding=1, stride=2), nn.BatchNorm2d(width << k), nn.LeakyReLU(0.1)]
        last = width << k
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 2))


def main(steps=100_000):
    labelled = DataLoader(Films(256, seed=0), batch_size=8, shuffle=True, drop_last=True)
    unlabelled = DataLoader(Films(1500, seed=1), batch_size=24, shuffle=True, num_workers=2, drop_last=True)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=5e-4)

    step = 0
    unlabelled_batches = iter(unlabelled)
    while step < steps:
        for weak, _, label in labelled:
            batch = next(unlabelled_batches, None)
            if batch is None:
                unlabelled_batches = iter(unlabelled)
                batch = next(unlabelled_batches)
            free_weak, free_strong, _ = batch
            logits = model(torch.cat([weak, free_weak, free_strong]))
            known, guess, student = logits.split([len(weak), len(free_weak), len(free_strong)])
            confidence, pseudo = guess.detach().softmax(1).max(1)
            sure = (confidence > THRESHOLD).float()
            loss = F.cross_entropy(known, label)
            loss = loss + (F.cross_entropy(student, pseudo, reduction="none") * sure).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"{step:6d} loss {loss.item():.3f} sure {sure.mean():.0%}")


if __name__ == "__main__":
    main()
