"""Land use from thirteen-band satellite tiles; four small batches make one optimizer step."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANDS = 13
ACCUMULATE = 4


class Tiles(Dataset):
    def __init__(self, per_class=150, classes=10, side=32):
        rng = np.random.default_rng(1972)
        spectra = rng.uniform(0, 1, (classes, BANDS, 1, 1)).astype(np.float32)
        self.labels = np.repeat(np.arange(classes), per_class)
        noise = rng.normal(0, 0.5, (len(self.labels), BANDS, side, side)).astype(np.float32)
        self.tiles = torch.from_numpy(spectra[self.labels] + noise)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tiles[i], int(self.labels[i])


class GatedBlock(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Conv2d(a, b, 3, padding=1)
        self.norm = nn.GroupNorm(8, b)
        self.gate = nn.Linear(b, b)

    def forward(self, x):
        x = F.silu(self.norm(self.conv(x)))
        return F.avg_pool2d(x * self.gate(x.mean((2, 3))).sigmoid()[:, :, None, None], 2)


class LandNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(GatedBlock(BANDS, 48), GatedBlock(48, 64), GatedBlock(64, 96))
        self.out = nn.Linear(96, 10)

    def forward(self, x):
        return self.out(self.blocks(x).mean((2, 3)))


def main():
    torch.manual_seed(3)
    loader = DataLoader(Tiles(), batch_size=16, shuffle=True, drop_last=True)
    model = LandNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(2000):
        running = 0.0
        for i, (tiles, labels) in enumerate(loader, start=1):
            loss = F.cross_entropy(model(tiles), labels) / ACCUMULATE
            loss.backward()
            running += loss.item()
            if i % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: loss {running * ACCUMULATE / len(loader):.4f}")


if __name__ == "__main__":
    main()
