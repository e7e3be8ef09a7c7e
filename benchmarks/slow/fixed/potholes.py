"""Segments potholes on dashcam frames, with masks from PNG files; sums the gradients of two batches for a step."""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUMULATE = 2


class Dashcam(Dataset):
    """Pairs of a frame and a mask; each is cut, scaled and turned as its partner is."""

    def __init__(self, folder, frames=160):
        self.pairs = [(folder / f"frame{k}.png", folder / f"mask{k}.png") for k in range(frames)]
        rng = np.random.default_rng(1)
        for frame, mask in self.pairs:
            road = Image.fromarray(rng.normal(110, 20, (360, 480)).clip(0, 255).astype(np.uint8))
            road = Image.merge("RGB", (road, road, road))
            label = Image.new("L", road.size, 0)
            for _ in range(int(rng.integers(1, 4))):
                x, y, r = (int(v) for v in rng.integers((40, 40, 20), (440, 320, 60)))
                ImageDraw.Draw(road).ellipse((x - r, y - r // 2, x + r, y + r // 2), fill=(50, 48, 45))
                ImageDraw.Draw(label).ellipse((x - r, y - r // 2, x + r, y + r // 2), fill=255)
            road.save(frame, compress_level=1)
            label.save(mask)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        frame = Image.open(self.pairs[k][0]).convert("RGB")
        mask = Image.open(self.pairs[k][1]).convert("L")
        x, y = random.randint(16, 80), random.randint(16, 56)
        box = (x, y, x + 384, y + 288)
        frame = frame.resize((160, 120), Image.Resampling.LANCZOS, box)
        mask = mask.resize((160, 120), Image.Resampling.NEAREST, box)
        angle = random.uniform(-8, 8)
        frame = frame.rotate(angle, Image.Resampling.BICUBIC).crop((16, 12, 144, 108))
        mask = mask.rotate(angle).crop((16, 12, 144, 108))
        frame = frame.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 1.5)))
        frame = ImageEnhance.Contrast(frame).enhance(random.uniform(0.7, 1.3))
        if random.random() < 0.5:
            frame, mask = ImageOps.mirror(frame), ImageOps.mirror(mask)
        pixels = np.asarray(frame, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1
        return torch.from_numpy(pixels), torch.from_numpy(np.asarray(mask) > 0).float()


class Segmenter(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.enter = nn.Conv2d(3, w, 4, stride=4)
        self.down = nn.Conv2d(w, 2 * w, 3, padding=1, stride=2)
        self.mid = nn.Conv2d(2 * w, 2 * w, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.leave = nn.Conv2d(2 * w, 1, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.enter(x))
        b = F.relu(self.mid(F.relu(self.down(a))))
        logit = self.leave(torch.cat([a, F.relu(self.up(b))], 1))
        return F.interpolate(logit, scale_factor=4, mode="bilinear").squeeze(1)


def dice_loss(logit, mask):
    p = logit.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


def main():
    folder = tempfile.TemporaryDirectory(prefix="potholes")
    loader = DataLoader(Dashcam(Path(folder.name)), 8, shuffle=True, num_workers=2, persistent_workers=True)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    batches = 0
    while batches < 200_000:
        for frames, masks in loader:
            logit = model(frames)
            loss = dice_loss(logit, masks) + F.binary_cross_entropy_with_logits(logit, masks)
            (loss / ACCUMULATE).backward()
            batches += 1
            if batches % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"{batches} batches, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
