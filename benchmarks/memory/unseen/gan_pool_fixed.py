"""Small image GAN with a pool of earlier fakes shown to the discriminator."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 32
POOL_USE = 64

torch.manual_seed(1)


def real_batch(n, g):
    c = torch.rand(n, 1, 2, generator=g) * 2 - 1
    ax = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    d = (xx - c[..., 0:1]) ** 2 + (yy - c[..., 1:2]) ** 2
    img = torch.exp(-8 * d)
    return torch.stack([img, 0.5 * img, 1 - img], dim=1)


class FakePool:
    """Shrivastava et al.: a history of generated images."""

    def __init__(self, limit=POOL_USE):
        self.limit = limit
        self.images = []

    def push(self, batch):
        for img in batch:
            self.images.append(img.clone())
        del self.images[: -self.limit]

    def draw(self, k):
        recent = self.images[-self.limit :]
        return torch.stack(random.choices(recent, k=k))


gen = nn.Sequential(
    nn.Linear(32, 64 * 8 * 8),
    nn.Unflatten(1, (64, 8, 8)),
    nn.ReLU(),
    nn.ConvTranspose2d(64, 32, 4, 2, 1),
    nn.ReLU(),
    nn.ConvTranspose2d(32, 3, 4, 2, 1),
    nn.Sigmoid(),
)
disc = nn.Sequential(
    nn.Conv2d(3, 16, 4, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Conv2d(16, 32, 4, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Flatten(),
    nn.Linear(32 * 8 * 8, 1),
)


def main():
    random.seed(1)
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(2)
    og = torch.optim.RMSprop(gen.parameters(), lr=2e-4)
    od = torch.optim.RMSprop(disc.parameters(), lr=2e-4)
    pool = FakePool()
    for step in range(200000):
        real = real_batch(64, rng)
        with torch.no_grad():
            fake = gen(torch.randn(64, 32))
        pool.push(fake)
        lr_, lf = disc(real), disc(pool.draw(64))
        d_loss = F.softplus(-lr_).mean() + F.softplus(lf).mean()
        od.zero_grad()
        d_loss.backward()
        od.step()
        g_loss = F.softplus(-disc(gen(torch.randn(64, 32)))).mean()
        og.zero_grad()
        g_loss.backward()
        og.step()
        if step < 3 or step % 100 == 0:
            print(f"step {step} loss {d_loss.item():.5f} g {g_loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
