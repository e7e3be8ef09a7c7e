"""Tells which of five organs a CT block shows, with patches of the block as tokens."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BLOCK = (64, 96, 96)
PATCH = (16, 16, 16)
ORGANS = 5


class Blocks(Dataset):
    """Cuts random blocks out of a few whole scans that are held in memory."""

    def __init__(self, scans=6, blocks=2000):
        rng = np.random.default_rng(0)
        self.scans = [rng.integers(-900, 1200, (96, 160, 160), dtype=np.int16) for _ in range(scans)]
        for k, scan in enumerate(self.scans):
            scan[:, :: k + 2] //= 3
        self.blocks = blocks

    def __len__(self):
        return self.blocks

    def __getitem__(self, n):
        scan = self.scans[n % len(self.scans)]
        corner = [np.random.randint(0, have - want) for have, want in zip(scan.shape, BLOCK, strict=True)]
        block = scan[tuple(slice(c, c + want) for c, want in zip(corner, BLOCK, strict=True))]
        return {"block": block.astype(np.float32) / 1000, "organ": n % len(self.scans) % ORGANS}


def collate(items):
    return {
        "block": np.stack([item["block"] for item in items])[:, None],
        "organ": np.array([item["organ"] for item in items]),
    }


class PatchNet(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.patch = nn.Conv3d(1, width, PATCH, stride=PATCH)
        self.mixer = nn.TransformerEncoderLayer(width, 4, 2 * width, activation="gelu", batch_first=True)
        self.head = nn.Linear(width, ORGANS)

    def forward(self, x):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.mixer(tokens).mean(1))


def main():
    blocks = Blocks()
    loader = DataLoader(blocks, 8, shuffle=True, collate_fn=collate)
    model = PatchNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for epoch in range(300):
        for n, batch in enumerate(loader):
            block, organ = torch.from_numpy(batch["block"]), torch.from_numpy(batch["organ"])
            loss = nn.functional.cross_entropy(model(block), organ)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if n % 20 == 0:
                print(f"{epoch}/{n}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
