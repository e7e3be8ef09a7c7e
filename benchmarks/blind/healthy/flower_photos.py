"""Classify synthetic flower photographs from JPEG files with random crops and colour jitter."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

SPECIES = 8


def write_photos(root, count, seed):
    rng = np.random.default_rng(seed)
    meadow = rng.integers(40, 140, (8, 192, 256, 3), dtype=np.uint8)
    palette = rng.integers(100, 256, (SPECIES, 3))
    for i in range(count):
        species = int(rng.integers(SPECIES))
        photo = Image.fromarray(meadow[i % 8])
        pen = ImageDraw.Draw(photo)
        cx, cy = int(rng.integers(80, 176)), int(rng.integers(60, 132))
        for angle in np.linspace(0, 2 * np.pi, 4 + species, endpoint=False):
            px, py = cx + 24 * np.cos(angle), cy + 24 * np.sin(angle)
            pen.ellipse((px - 11, py - 11, px + 11, py + 11), fill=tuple(int(c) for c in palette[species]))
        pen.ellipse((cx - 12, cy - 12, cx + 12, cy + 12), fill=(240, 200, 40))
        photo.save(root / f"{species:02d}_{i:05d}.jpg", quality=85)


class FlowerPhotos(Dataset):
    def __init__(self, root, size=96):
        self.files = sorted(Path(root).glob("*.jpg"))
        self.labels = [int(f.name[:2]) for f in self.files]
        self.size = size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with Image.open(self.files[index]) as photo:
            photo = photo.convert("RGB")
        side = int(torch.randint(128, 193, ()))
        left = int(torch.randint(0, photo.width - side + 1, ()))
        top = int(torch.randint(0, photo.height - side + 1, ()))
        crop = photo.resize((self.size, self.size), Image.BILINEAR, box=(left, top, left + side, top + side))
        if torch.rand(()) < 0.5:
            crop = crop.transpose(Image.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(crop)).permute(2, 0, 1).contiguous()
        return pixels, self.labels[index]


def jitter(batch):
    """Brightness and contrast for the whole batch at once."""
    batch = batch.float().div_(255)
    brightness = torch.empty(len(batch), 1, 1, 1).uniform_(-0.2, 0.2)
    contrast = torch.empty(len(batch), 1, 1, 1).uniform_(0.8, 1.2)
    return batch.sub_(0.45).mul_(contrast).add_(brightness)


def conv(cin, cout, stride):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


def build_model():
    return nn.Sequential(
        conv(3, 16, 2),
        conv(16, 32, 2),
        conv(32, 64, 2),
        conv(64, 96, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, SPECIES),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(4)
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder), args.photos, seed=4)
        loader = DataLoader(
            FlowerPhotos(folder),
            batch_size=args.batch_size,
            shuffle=True,
            num_workers=args.workers,
            persistent_workers=True,
            prefetch_factor=4,
            drop_last=True,
        )
        model = build_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        for epoch in range(args.epochs):
            model.train()
            loss_sum, hits = torch.zeros(()), torch.zeros((), dtype=torch.long)
            for pixels, labels in loader:
                logits = model(jitter(pixels))
                loss = F.cross_entropy(logits, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss_sum += loss.detach()
                hits += (logits.detach().argmax(1) == labels).sum()
            seen = len(loader) * args.batch_size
            print(f"epoch {epoch} loss {loss_sum.item() / len(loader):.4f} acc {hits.item() / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
