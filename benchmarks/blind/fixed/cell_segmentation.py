"""Semantic segmentation of synthetic microscopy tiles with a small U-Net."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = [
    "background",
    "nucleus",
    "nucleolus",
    "cytoplasm",
    "membrane",
    "vacuole",
    "mitosis",
    "debris",
    "bubble",
    "scratch",
]


class Tiles(Dataset):
    def __init__(self, count=96, size=80, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:size, :size]
        self.masks = np.zeros((count, size, size), dtype=np.int64)
        for mask in self.masks:
            for _ in range(12):
                cy, cx = rng.integers(0, size, 2)
                r = rng.integers(5, 16)
                d2 = (yy - cy) ** 2 + (xx - cx) ** 2
                mask[d2 < r * r] = rng.integers(1, len(CLASSES))
        palette = rng.random((len(CLASSES), 3)).astype(np.float32)
        tiles = palette[self.masks] + rng.normal(0, 0.2, (count, size, size, 3))
        self.tiles = np.ascontiguousarray(tiles.transpose(0, 3, 1, 2), dtype=np.float32)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        return torch.from_numpy(self.tiles[i]), torch.from_numpy(self.masks[i])


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8, classes=len(CLASSES)):
        super().__init__()
        self.enc1 = double_conv(3, base)
        self.enc2 = double_conv(base, 2 * base)
        self.mid = double_conv(2 * base, 4 * base)
        self.dec2 = double_conv(6 * base, 2 * base)
        self.dec1 = double_conv(3 * base, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        c = self.dec2(torch.cat([F.interpolate(c, scale_factor=2.0), b], dim=1))
        c = self.dec1(torch.cat([F.interpolate(c, scale_factor=2.0), a], dim=1))
        return self.out(c)


def dice_loss(logits, target):
    prob = logits.softmax(1)
    onehot = F.one_hot(target, prob.shape[1]).permute(0, 3, 1, 2).float()
    inter = (prob * onehot).sum(dim=(0, 2, 3))
    total = prob.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
    return 1 - ((2 * inter + 1) / (total + 1)).mean()


class ConfusionMeter:
    def __init__(self, classes):
        self.classes = classes
        self.matrix = torch.zeros(classes, classes, dtype=torch.long)

    def update(self, logits, target):
        pred = logits.detach().argmax(1)
        pairs = (target * self.classes + pred).flatten()
        counts = torch.bincount(pairs, minlength=self.classes**2)
        self.matrix += counts.view(self.classes, self.classes)

    def mean_iou(self):
        m = self.matrix.float()
        union = m.sum(0) + m.sum(1) - m.diag()
        return (m.diag() / union.clamp(min=1)).mean().item()


def main(epochs=1000, batch_size=8):
    torch.manual_seed(1)
    loader = DataLoader(Tiles(), batch_size=batch_size, shuffle=True)
    net = UNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(epochs):
        net.train()
        meter = ConfusionMeter(len(CLASSES))
        running = 0.0
        for tiles, masks in loader:
            logits = net(tiles)
            loss = F.cross_entropy(logits, masks) + dice_loss(logits, masks)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.item()
            meter.update(logits, masks)
        print(f"epoch {epoch} loss {running / len(loader):.4f} mIoU {meter.mean_iou():.4f}", flush=True)


if __name__ == "__main__":
    main()
