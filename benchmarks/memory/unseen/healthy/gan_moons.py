"""WGAN-GP on image-like bumps; gradient penalty needs a double backward."""

import torch
import torch.nn as nn

torch.manual_seed(5)
torch.set_num_threads(1)
SIDE = 24


def bumps(n):
    ax = torch.linspace(-1, 1, SIDE)
    c = torch.rand(n, 2, 1, 1) * 1.2 - 0.6
    return torch.exp(-10 * ((ax[None, None] - c[:, :1]) ** 2 + (ax[None, :, None] - c[:, 1:]) ** 2))


class Generator(nn.Module):
    def __init__(self, z=24):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(
            nn.Linear(z, 48 * 36),
            nn.ReLU(),
            nn.Unflatten(1, (48, 6, 6)),
            nn.ConvTranspose2d(48, 24, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(24, 1, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, n):
        return self.net(torch.randn(n, self.z))


critic = nn.Sequential(
    nn.Conv2d(1, 24, 4, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Conv2d(24, 48, 4, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Flatten(),
    nn.Linear(48 * 36, 1),
)


def penalty(real, fake):
    mix = torch.rand(len(real), 1, 1, 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).pow(2).mean()


def main():
    gen = Generator()
    og = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.9))
    oc = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.9))
    for step in range(10**6):
        real = bumps(64).view(64, 1, SIDE, SIDE)
        with torch.no_grad():
            fake = gen(64)
        c_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        oc.zero_grad()
        c_loss.backward()
        oc.step()
        if step % 3 == 2:
            critic.requires_grad_(False)
            g_loss = -critic(gen(64)).mean()
            og.zero_grad()
            g_loss.backward()
            og.step()
            critic.requires_grad_(True)
        if step < 3 or step % 100 == 0:
            print(f"step {step} loss {c_loss.item():.5f}", flush=True)


if __name__ == "__main__":
    main()
