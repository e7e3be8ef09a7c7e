"""A GAN that invents glyphs of strokes and dots."""

import itertools
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn, optim
from torch.nn.functional import softplus

LATENT = 24
SAMPLES = Path(tempfile.gettempdir()) / "glyph_samples"


def draw_glyph(pen):
    """One glyph of 32 x 32, drawn large and made smaller for soft edges."""
    image = Image.new("L", (64, 64))
    draw = ImageDraw.Draw(image)
    for _ in range(pen.randint(2, 4)):
        ends = [(pen.randint(8, 56), pen.randint(8, 56)) for _ in range(2)]
        draw.line(ends, fill=255, width=pen.randint(4, 7))
    if pen.random() < 0.5:
        x, y = pen.randint(10, 48), pen.randint(10, 48)
        draw.ellipse((x, y, x + 8, y + 8), fill=255)
    return np.asarray(image.resize((32, 32), Image.Resampling.BOX))


def glyphs(count, batch):
    """Yield batches for ever, scaled to [-1, 1]."""
    pen = random.Random(4)
    stock = torch.from_numpy(np.stack([draw_glyph(pen) for _ in range(count)]))
    while True:
        for rows in torch.randperm(count).split(batch):
            yield stock[rows].unsqueeze(1).float() / 127.5 - 1


def generator(width=16):
    return nn.Sequential(
        nn.Linear(LATENT, 4 * width * 16),
        nn.Unflatten(1, (4 * width, 4, 4)),
        nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, 2, 1),
        nn.Tanh(),
    )


def discriminator(width=16):
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(4 * width * 16, 1),
    )


def contact_sheet(g, noise):
    """An image of 8 x 8 samples."""
    with torch.no_grad():
        tiles = g(noise).add(1).mul(127.5).byte()
    sheet = tiles.reshape(8, 8, 32, 32).permute(0, 2, 1, 3).reshape(256, 256)
    return Image.fromarray(sheet.numpy())


def train(sample_every=20):
    torch.manual_seed(0)
    SAMPLES.mkdir(exist_ok=True)
    g, d = generator(), discriminator()
    opt_d = optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_g = optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    fixed = torch.randn(64, LATENT)
    batches = glyphs(count=2000, batch=48)
    for step in itertools.count():
        real = next(batches)
        fake = g(torch.randn(len(real), LATENT))

        loss_d = softplus(-d(real)).mean() + softplus(d(fake.detach())).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = softplus(-d(fake)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()

        if step % sample_every == 0:
            sheet = contact_sheet(g, fixed)
            sheet.save(SAMPLES / f"{step // sample_every % 50:02d}.png")
            print(f"{step:6d} d {loss_d.item():.3f} g {loss_g.item():.3f}")


if __name__ == "__main__":
    train()
