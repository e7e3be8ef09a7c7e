"""Find defects in rolled steel: an autoencoder of clean patches, whose error marks the odd ones."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(99)


def steel(n, size=40):
    """Brushed grey metal with a slow gradient."""
    grain = torch.randn(n, 1, size, 1).expand(-1, -1, -1, size) * 0.15
    light = torch.rand(n, 1, 1, 1) * torch.linspace(0, 1, size)
    return 0.4 + grain + 0.3 * light + 0.05 * torch.randn(n, 1, size, size)


def scratch(patches):
    spoiled = patches.clone()
    for patch in spoiled:
        row, column = torch.randint(4, 32, (2,)).tolist()
        patch[0, row : row + 2, column : column + 8] += 0.6
    return spoiled


class Autoencoder(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1), nn.ELU(), nn.Conv2d(c, 2 * c, 3, 2, 1), nn.ELU(), nn.Conv2d(2 * c, 8, 1)
        )
        self.up = nn.Sequential(
            nn.Conv2d(8, 2 * c, 3, 1, 1),
            nn.ELU(),
            nn.ConvTranspose2d(2 * c, c, 4, 2, 1),
            nn.ELU(),
            nn.ConvTranspose2d(c, 1, 4, 2, 1),
        )

    def forward(self, x):
        return self.up(self.down(x))


def main():
    loader = DataLoader(TensorDataset(steel(2048)), batch_size=64, shuffle=True)
    clean = steel(64)
    bad = scratch(clean)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(5000):
        for (patches,) in loader:
            loss = nn.functional.l1_loss(model(patches), patches)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            apart = (model(bad) - bad).abs().amax((1, 2, 3)) - (model(clean) - clean).abs().amax((1, 2, 3))
        print(f"epoch {epoch}: l1 {loss.item():.4f}, contrast of defects {apart.mean().item():.3f}")


if __name__ == "__main__":
    main()
