"""A generator and a discriminator with an optimizer each, and a teacher that is never trained."""

import time
from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader


def load(items):
    time.sleep(0.05)
    return torch.stack([torch.full((64,), float(item)) for item in items]).sin()


def layers(*sizes):
    return nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.LeakyReLU()) for a, b in pairwise(sizes)))


generator, discriminator, teacher = layers(16, 256, 64), layers(64, 256, 1), layers(64, 128, 1)
of_generator = torch.optim.RMSprop(generator.parameters())
of_discriminator = torch.optim.RMSprop(discriminator.parameters())
loss_of = nn.BCEWithLogitsLoss()
while True:
    for real in DataLoader(range(48), 12, collate_fn=load):
        fake = generator(torch.randn(len(real), 16))
        of_discriminator.zero_grad()
        judged = torch.cat([discriminator(real), discriminator(fake.detach())])
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(real), 1)])
        loss_of(judged, truth).backward()
        of_discriminator.step()

        of_generator.zero_grad()
        with torch.no_grad():
            taught = teacher(fake)
        (loss_of(discriminator(fake), torch.ones(len(real), 1)) + (fake.mean() - taught.mean()).square()).backward()
        of_generator.step()
