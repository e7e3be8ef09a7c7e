"""WGAN-GP that generates small grey images of ellipses."""

import argparse
import time

import torch
import torch.nn as nn


def ellipse_images(n=2048, size=32, seed=4):
    g = torch.Generator().manual_seed(seed)
    r = torch.rand(n, 5, generator=g)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    cx, cy = (r[:, 0] - 0.5)[:, None, None], (r[:, 1] - 0.5)[:, None, None]
    a, b = (0.2 + 0.4 * r[:, 2])[:, None, None], (0.2 + 0.4 * r[:, 3])[:, None, None]
    th = (3.14159 * r[:, 4])[:, None, None]
    u = (xs - cx) * th.cos() + (ys - cy) * th.sin()
    v = -(xs - cx) * th.sin() + (ys - cy) * th.cos()
    img = torch.sigmoid(8 * (1 - (u / a) ** 2 - (v / b) ** 2))
    return (2 * img - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, nz=64, ngf=48):
        super().__init__()
        self.fc = nn.Linear(nz, ngf * 2 * 8 * 8)
        self.ngf = ngf
        self.net = nn.Sequential(
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf * 2, ngf, 3, padding=1),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(ngf, ngf, 3, padding=1),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.Conv2d(ngf, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.ngf * 2, 8, 8))


class Critic(nn.Module):
    def __init__(self, ndf=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(ndf * 4 * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1)
    mix = (eps * real + (1 - eps) * fake.detach()).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return ((grad.flatten(1).norm(dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--nz", type=int, default=64)
    parser.add_argument("--n_critic", type=int, default=4)
    parser.add_argument("--lambda_gp", type=float, default=10.0)
    parser.add_argument("--lr", type=float, default=2e-4)
    opt = parser.parse_args()

    torch.manual_seed(0)
    images = ellipse_images()
    netG, netD = Generator(opt.nz), Critic()
    optG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.9))
    optD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.9))

    iters = 0
    for epoch in range(opt.epochs):
        start, w_dist, g_sum, g_n = time.time(), 0.0, 0.0, 0
        for idx in torch.randperm(len(images))[:1024].split(opt.batch_size):
            real = images[idx]
            z = torch.randn(real.size(0), opt.nz)
            with torch.no_grad():
                fake = netG(z)
            d_real, d_fake = netD(real).mean(), netD(fake).mean()
            loss_d = d_fake - d_real + opt.lambda_gp * gradient_penalty(netD, real, fake)
            optD.zero_grad()
            loss_d.backward()
            optD.step()
            w_dist += (d_real - d_fake).item()

            iters += 1
            if iters % opt.n_critic == 0:
                z = torch.randn(real.size(0), opt.nz)
                netD.requires_grad_(False)
                loss_g = -netD(netG(z)).mean()
                optG.zero_grad()
                loss_g.backward()
                optG.step()
                netD.requires_grad_(True)
                g_sum, g_n = g_sum + loss_g.item(), g_n + 1
        print(
            f"[{epoch}/{opt.epochs}] W {w_dist / 64:.4f} G {g_sum / g_n:.4f} time {time.time() - start:.1f}", flush=True
        )


if __name__ == "__main__":
    main()
