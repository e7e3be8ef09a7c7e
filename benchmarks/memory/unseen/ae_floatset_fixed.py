"""Convolutional autoencoder on 8-bit textures."""

import torch
import torch.nn as nn

torch.set_num_threads(1)


def textures(n, seed):
    g = torch.Generator().manual_seed(seed)
    out = torch.empty(n, 3, 40, 40, dtype=torch.uint8)
    ax = torch.arange(40).float()
    for i in range(0, n, 500):
        k = min(500, n - i)
        fx, fy = 0.1 + torch.rand(2, k, 3, 1, 1, generator=g)
        img = torch.sin(fx * ax) + torch.cos(fy * ax[:, None])
        out[i : i + k] = ((img + 2) * 63).to(torch.uint8)
    return out


class AutoEncoder(nn.Module):
    def __init__(self, c=12, z=48):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, c, 4, 2, 1),
            nn.ELU(),
            nn.Conv2d(c, 2 * c, 4, 2, 1),
            nn.ELU(),
            nn.Flatten(),
            nn.Linear(2 * c * 100, z),
        )
        self.decoder = nn.Sequential(
            nn.Linear(z, 2 * c * 100),
            nn.Unflatten(1, (2 * c, 10, 10)),
            nn.ELU(),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
            nn.ELU(),
            nn.ConvTranspose2d(c, 3, 4, 2, 1),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Textures:
    def __init__(self, n, device):
        self.images = textures(n, 3).to(device)

    def __len__(self):
        return len(self.images)

    def get(self, idx):
        return self.images[idx].float().div_(255)


def fit(device="cpu", epochs=1000, bs=64):
    torch.manual_seed(0)
    ds = Textures(7000, device)
    model = AutoEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.98)
    step = 0
    for epoch in range(epochs):
        for idx in torch.randperm(len(ds)).split(bs):
            x = ds.get(idx)
            loss = (model(x) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        sched.step()


if __name__ == "__main__":
    fit()
