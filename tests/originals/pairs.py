"""Users and what they know, each with rivals that are often known to others, but not to this user."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

USERS, THINGS = 50, 300


class Pairs(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(14)
        self.often = 1 / torch.arange(1.0, THINGS + 1)
        self.things = torch.multinomial(self.often, 240, replacement=True, generator=dice)
        self.users = torch.randint(USERS, (240,), generator=dice)

    def __len__(self):
        return len(self.users)

    def __getitem__(self, index):
        time.sleep(0.001)
        user = self.users[index]
        unknown = self.often.index_fill(0, self.things[self.users == user], 0)
        return user, self.things[index], torch.multinomial(unknown, 8, replacement=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.things = nn.Embedding(USERS, 16), nn.Embedding(THINGS, 16)

    def forward(self, users, things):
        return (self.users(users)[:, None] * self.things(things)).sum(2)


def main():
    loader = DataLoader(Pairs(), 12, shuffle=True)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        for users, things, rivals in loader:
            optimizer.zero_grad()
            scores = model(users, torch.cat([things[:, None], rivals], 1))
            nn.functional.cross_entropy(scores, torch.zeros(len(users), dtype=torch.long)).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
