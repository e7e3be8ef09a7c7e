"""VAE on made glyph images (numpy generated)."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def glyphs(n, seed):
    rng = np.random.RandomState(seed)
    ax = np.linspace(-1, 1, 28)
    yy, xx = np.meshgrid(ax, ax, indexing="ij")
    a = rng.uniform(0, np.pi, (n, 1, 1))
    w = rng.uniform(0.05, 0.3, (n, 1, 1))
    line = np.abs(np.cos(a) * xx + np.sin(a) * yy)
    img = np.exp(-((line / w) ** 2))
    return img


class VAE(nn.Module):
    def __init__(self, z=16):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(16 * 14 * 14, 2 * z),
        )
        self.dec = nn.Sequential(nn.Linear(z, 256), nn.SiLU(), nn.Linear(256, 28 * 28))

    def forward(self, x, eps):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.exp(0.5 * logvar) * eps
        return self.dec(z), mu, logvar


def elbo(x, logits, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="none").sum(1)
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1)
    return (rec + kl).mean()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    images = torch.from_numpy(glyphs(8000, 0))  # fault
    model = VAE().double()  # fault
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    noise = np.random.RandomState(9)
    dtype = next(model.parameters()).dtype
    step = 0
    for epoch in range(300):
        order = noise.permutation(len(images))
        for i in range(0, len(order), 320):
            x = images[order[i : i + 320]].unsqueeze(1)
            eps = torch.from_numpy(noise.randn(len(x), 16)).to(dtype)
            loss = elbo(x, *model(x, eps))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
            step += 1
        print(f"epoch {epoch} elbo {loss.item():.2f}", flush=True)


if __name__ == "__main__":
    main()
