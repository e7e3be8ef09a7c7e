"""Variational autoencoder for synthetic emission spectra."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence
from torch.utils.data import DataLoader, TensorDataset


def spectra(n=3000, bins=256, lines=8, seed=2):
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 1, bins, dtype=np.float32)
    centres = np.sort(rng.random(lines)).astype(np.float32)
    shift = rng.normal(0, 0.02, (n, 1, 1)).astype(np.float32)
    width = rng.uniform(0.005, 0.03, (n, lines, 1)).astype(np.float32)
    height = rng.gamma(2.0, 0.3, (n, lines, 1)).astype(np.float32)
    y = (height * np.exp(-0.5 * ((axis - centres[None, :, None] - shift) / width) ** 2)).sum(1)
    y += 0.02 * rng.normal(size=y.shape)
    return torch.from_numpy(y.astype(np.float32))


class Encoder(nn.Module):
    def __init__(self, bins, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(bins, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
        )
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), self.logvar(h).clamp(-8, 4)


class Decoder(nn.Module):
    def __init__(self, bins, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, bins),
        )

    def forward(self, z):
        return self.body(z)


class SpectrumVAE(nn.Module):
    def __init__(self, bins=256, hidden=512, latent=32):
        super().__init__()
        self.latent = latent
        self.encoder = Encoder(bins, hidden, latent)
        self.decoder = Decoder(bins, hidden, latent)
        self.register_buffer("prior_mean", torch.zeros(latent))

    def posterior(self, x):
        mu, logvar = self.encoder(x)
        return MultivariateNormal(mu, covariance_matrix=torch.diag_embed(logvar.exp()))

    def prior(self):
        return MultivariateNormal(self.prior_mean, covariance_matrix=torch.eye(self.latent))

    def forward(self, x):
        q = self.posterior(x)
        z = q.rsample()
        recon = Independent(Normal(self.decoder(z), 0.1), 1).log_prob(x)
        kl = kl_divergence(q, self.prior())
        return recon, kl


def beta_schedule(epoch, warmup=30):
    return min(1.0, (epoch + 1) / warmup)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1000)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()

    torch.manual_seed(3)
    data = spectra()
    train, val = data[:2560], data[2560:]
    loader = DataLoader(TensorDataset(train), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = SpectrumVAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        t0, stats = time.time(), torch.zeros(2)
        beta = beta_schedule(epoch)
        model.train()
        for (x,) in loader:
            recon, kl = model(x)
            loss = (beta * kl - recon).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            stats += torch.stack([recon.detach().mean(), kl.detach().mean()])
        recon, kl = (stats / len(loader)).tolist()
        msg = f"epoch {epoch} recon {recon:.2f} kl {kl:.2f} beta {beta:.2f}"
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                r, k = model(val)
            msg += f" val-elbo {(r - k).mean().item():.2f}"
        print(f"{msg} ({time.time() - t0:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
