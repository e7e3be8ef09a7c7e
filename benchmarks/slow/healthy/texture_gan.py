"""A DCGAN that learns to paint 32x32 textures of woven cloth."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

Z = 48


class Generator(nn.Sequential):
    def __init__(self, w=32):
        super().__init__(
            nn.ConvTranspose2d(Z, 3 * w, 4, 1, 0, bias=False), nn.BatchNorm2d(3 * w), nn.ReLU(),
            nn.ConvTranspose2d(3 * w, 2 * w, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * w), nn.ReLU(),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU(),
            nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip


class Critic(nn.Sequential):
    def __init__(self, w=32):
        super().__init__(
            nn.Conv2d(3, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.BatchNorm2d(2 * w), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 3 * w, 4, 2, 1), nn.BatchNorm2d(3 * w), nn.LeakyReLU(0.2),
            nn.Conv2d(3 * w, 1, 4), nn.Flatten(0),
        )  # fmt: skip


def cloth(n):
    t = torch.arange(32.0)
    f = torch.rand(n, 1, 1, 2) * 1.5 + 0.5
    warp, weft = torch.sin(t * f[..., 0])[..., None, :], torch.sin(t * f[..., 1])[..., :, None]
    dye = torch.rand(n, 3, 1, 1)
    return (dye * (warp * weft) + 0.1 * torch.randn(n, 3, 32, 32)).clamp(-1, 1)


torch.manual_seed(12)
samples = cloth(4000)
generator, critic = Generator(), Critic()
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
batch = 32
ones, zeros = torch.ones(batch), torch.zeros(batch)

for step in range(1, 200_001):
    real = samples[torch.randint(0, len(samples), (batch,))]
    fake = generator(torch.randn(batch, Z, 1, 1))

    loss_c = bce(critic(real), 0.9 * ones) + bce(critic(fake.detach()), zeros)
    opt_c.zero_grad()
    loss_c.backward()
    opt_c.step()

    critic.requires_grad_(False)
    loss_g = bce(critic(fake), ones)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    critic.requires_grad_(True)

    if step % 25 == 0:
        print(f"{step}: critic {loss_c.item():.3f} generator {loss_g.item():.3f}")
