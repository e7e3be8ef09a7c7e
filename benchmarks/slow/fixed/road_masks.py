"""Segment roads in aerial tiles with a small U-Net."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

OUT = Path(tempfile.mkdtemp(prefix="roads_"))


class Tiles(Dataset):
    """Aerial tiles made once: noisy ground, crossed by one or two straight roads."""

    def __init__(self, count=600, size=96):
        rng = np.random.default_rng(11)
        yy, xx = np.mgrid[0:size, 0:size] / size
        self.images = np.empty((count, 3, size, size), np.float32)
        self.masks = np.zeros((count, size, size), np.float32)
        for i in range(count):
            ground = rng.random((3, 1, 1)) * 0.5 + rng.random((3, size, size)) * 0.3
            for _ in range(rng.integers(1, 3)):
                angle, offset = rng.uniform(0, np.pi), rng.uniform(-0.3, 0.3)
                distance = (xx - 0.5) * np.cos(angle) + (yy - 0.5) * np.sin(angle) - offset
                self.masks[i][np.abs(distance) < rng.uniform(0.03, 0.06)] = 1
            self.images[i] = np.where(self.masks[i] > 0, 0.55 + 0.1 * rng.random((3, size, size)), ground)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.d1, self.d2, self.d3 = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.u2, self.u1 = block(6 * w, 2 * w), block(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        return self.out(a).squeeze(1)


def write_overview(images, masks, logits, path):
    """Picture, truth and prediction of each tile of the batch, three in a row."""
    rows = []
    for image, mask, logit in zip(images, masks, logits.sigmoid(), strict=True):
        truth, guess = mask.expand(3, -1, -1), logit.expand(3, -1, -1)
        rows.append(torch.cat([image, truth, guess], dim=2))
    sheet = (torch.cat(rows, dim=1).permute(1, 2, 0) * 255).clamp(0, 255).byte().numpy()
    Image.fromarray(sheet).resize((sheet.shape[1] * 2, sheet.shape[0] * 2)).save(path)


def dice(logits, masks):
    p = logits.sigmoid()
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


def main():
    loader = DataLoader(Tiles(), batch_size=8, shuffle=True, drop_last=True)
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print("pictures go to", OUT)
    step = 0
    for epoch in range(10_000):
        for images, masks in loader:
            logits = model(images)
            loss = F.binary_cross_entropy_with_logits(logits, masks) + dice(logits, masks)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 200 == 0:
                write_overview(images, masks, logits.detach(), OUT / "latest.png")
            step += 1
        print(f"epoch {epoch}: {step} steps, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
