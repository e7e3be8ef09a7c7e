"""A GAN: the generator is called first, and what is loaded enters the other model."""

import time

import torch
from torch import nn
from torch.nn.functional import softplus
from torch.utils.data import DataLoader, Dataset


class Curves(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(13)
        self.curves = torch.randn(240, 3, generator=dice) @ torch.randn(3, 24, generator=dice)
        self.curves += 0.2 * torch.randn(240, 24, generator=dice)

    def __len__(self):
        return len(self.curves)

    def __getitem__(self, index):
        time.sleep(0.001)
        return self.curves[index]


def main():
    loader = DataLoader(Curves(), 8, shuffle=True)
    generator = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 24))
    critic = nn.Sequential(nn.Linear(24, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator, of_critic = (torch.optim.Adam(each.parameters(), lr=2e-4) for each in (generator, critic))
    while True:
        for real in loader:
            fake = generator(torch.randn(len(real), 6))
            of_critic.zero_grad()
            (softplus(-critic(real)).mean() + softplus(critic(fake.detach())).mean()).backward()
            of_critic.step()
            of_generator.zero_grad()
            softplus(-critic(generator(torch.randn(len(real), 6)))).mean().backward()
            of_generator.step()


if __name__ == "__main__":
    main()
