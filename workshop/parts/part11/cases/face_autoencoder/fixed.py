"""A denoising autoencoder of 32x32 synthetic faces (ellipses, eyes and a mouth)."""

import torch
from torch import nn
from torch.nn import functional as F


class Meter:
    """The mean over all images so far."""

    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, values):
        self.total += values.sum().item()
        self.count += len(values)

    def mean(self):
        return self.total / self.count


def draw_faces(n, size=32):
    g = torch.Generator().manual_seed(42)
    axis = torch.linspace(-1, 1, size)
    y, x = axis[:, None], axis[None, :]
    r = torch.rand(n, 6, 1, 1, generator=g)
    head = (x / (0.5 + 0.4 * r[:, 0])) ** 2 + (y / (0.6 + 0.35 * r[:, 1])) ** 2
    faces = torch.sigmoid(8 * (1 - head)) * (0.4 + 0.4 * r[:, 2])
    for side in (-1, 1):
        eye = ((x - side * (0.2 + 0.15 * r[:, 3])) ** 2 + (y + 0.2) ** 2) / 0.01
        faces = faces - 0.35 * torch.exp(-eye)
    mouth = (x / 0.25) ** 2 + ((y - 0.4 - 0.2 * (r[:, 4] - 0.5) * x**2) / 0.06) ** 2
    faces = faces - 0.3 * torch.exp(-mouth) * r[:, 5]
    return faces.clamp(0, 1).unsqueeze(1)


class Autoencoder(nn.Module):
    def __init__(self, z=24):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 4, 2, 1), nn.GELU(), nn.Flatten()
        )
        self.code = nn.Linear(32 * 8 * 8, z)
        self.dec = nn.Sequential(
            nn.Linear(z, 32 * 8 * 8),
            nn.Unflatten(1, (32, 8, 8)),
            nn.GELU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1),
            nn.GELU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )

    def forward(self, x):
        return self.dec(self.code(self.enc(x)))


faces = draw_faces(4096)
model = Autoencoder()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
meters = {name: Meter() for name in ("error", "contrast")}
batch = 32

for epoch in range(1000):
    for i, idx in enumerate(torch.randperm(len(faces)).split(batch)):
        x = faces[idx]
        out = model(x + 0.1 * torch.randn_like(x))
        loss = F.binary_cross_entropy_with_logits(out, x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        drawn = out.sigmoid()
        meters["error"].add((drawn - x).abs().mean((1, 2, 3)))
        meters["contrast"].add(drawn.std((1, 2, 3)))
        line = "  ".join(f"{name} {meter.mean():.3f}" for name, meter in meters.items())
        print(f"\repoch {epoch} batch {i}  {line}", end="", flush=True)
    print()
