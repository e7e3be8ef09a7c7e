"""Two towers that learn which recipe a household cooks next."""

import itertools

import torch
from torch import nn

torch.manual_seed(3)

HOUSEHOLDS, RECIPES = 200_000, 60_000
BATCH = 1024


class Tower(nn.Module):
    def __init__(self, rows, width=48):
        super().__init__()
        self.table = nn.Embedding(rows, width)
        self.mix = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, numbers):
        return nn.functional.normalize(self.mix(self.table(numbers)), dim=1)


def cooked(count):
    """Yield households with the recipes that they cooked; each household has a few favourites."""
    while True:
        households = torch.randint(HOUSEHOLDS, (count,))
        favourites = (households * 7919 + torch.randint(4, (count,))) % RECIPES
        yield households, favourites


def main():
    household_tower, recipe_tower = Tower(HOUSEHOLDS), Tower(RECIPES)
    parameters = [*household_tower.parameters(), *recipe_tower.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    for step, (households, recipes) in zip(itertools.count(), cooked(BATCH)):
        scores = household_tower(households) @ recipe_tower(recipes).T / 0.07
        loss = nn.functional.cross_entropy(scores, torch.arange(BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
