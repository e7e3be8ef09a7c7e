"""A Wasserstein GAN that invents a week of tides; its critic takes four steps for each of the generator."""

import itertools

import torch
from torch import nn, optim

torch.manual_seed(1)

HOURS = 168
CRITIC_STEPS = 4


def tides(count):
    """A week of hourly water levels: moon, sun, and a storm now and then."""
    hours = torch.arange(HOURS) + torch.rand(count, 1) * 700
    level = torch.sin(hours * 0.506) + 0.46 * torch.sin(hours * 0.5236) + 0.05 * torch.randn(count, HOURS)
    storm = torch.exp(-((torch.arange(HOURS) - torch.rand(count, 1) * HOURS) ** 2) / 200)
    return level + storm * (torch.rand(count, 1) < 0.2)


def generator(noise=32, width=768):
    return nn.Sequential(
        nn.Linear(noise, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, HOURS),
    )


def critic(width=192):
    return nn.Sequential(nn.Linear(HOURS, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))


def main(batch=256):
    gen, judge = generator(), critic()
    of_gen = optim.RMSprop(gen.parameters(), lr=5e-5)
    of_judge = optim.RMSprop(judge.parameters(), lr=5e-5)
    for step in itertools.count():
        for _ in range(CRITIC_STEPS):
            fake = gen(torch.randn(batch, 32))
            distance = judge(fake).mean() - judge(tides(batch)).mean()
            of_judge.zero_grad()
            distance.backward()
            of_judge.step()
            for weight in judge.parameters():
                weight.data.clamp_(-0.03, 0.03)
        of_gen.zero_grad()
        score = -judge(gen(torch.randn(batch, 32))).mean()
        score.backward()
        of_gen.step()
        if step % 50 == 0:
            print(f"step {step}: distance {distance.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
