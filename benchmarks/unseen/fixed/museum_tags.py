"""Tags the photographs of a museum's collection, which come from the museum's file server."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance
from torch import nn
from torch.utils.data import DataLoader, Dataset

TAGS = ["ceramic", "bronze", "textile", "portrait", "landscape", "coin", "map", "glass"]
ACCUMULATE = 2


class FileServer:
    """Stands in for the museum's server: the catalogue, the photographs and the curators' notes have a host each."""

    def __init__(self, root):
        self.root = root

    def catalogue(self, number):
        time.sleep(0.002)
        return json.loads((self.root / f"{number}.json").read_text())

    def photograph(self, name):
        time.sleep(0.0025)
        with Image.open(self.root / name) as image:
            return image.convert("RGB")

    def notes(self, name):
        time.sleep(0.002)
        return (self.root / name).read_text().split()


def fill(root, count=240):
    """Put photographs, records and notes on the server."""
    rng = np.random.default_rng(21)
    root.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        chosen = [tag for tag in TAGS if rng.random() < 0.3]
        image = Image.fromarray(rng.integers(90, 160, (20, 20, 3), dtype=np.uint8)).resize((180, 180))
        draw = ImageDraw.Draw(image)
        for tag in chosen:
            x, y = rng.integers(0, 130, 2).tolist()
            draw.ellipse((x, y, x + 45, y + 45), fill=tuple(30 * TAGS.index(tag) + c for c in (0, 10, 40)))
        image.save(root / f"{number}.jpg", quality=85)
        record = {"photograph": f"{number}.jpg", "notes": f"{number}.txt", "frame": [6, 6, 174, 174]}
        (root / f"{number}.json").write_text(json.dumps(record))
        (root / f"{number}.txt").write_text(" ".join(chosen))
    return count


class Collection(Dataset):
    def __init__(self, server, count):
        self.server, self.count = server, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        record = self.server.catalogue(number)
        image = self.server.photograph(record["photograph"])
        tags = self.server.notes(record["notes"])
        image = image.crop(record["frame"]).resize((112, 112), Image.Resampling.BICUBIC)
        image = ImageEnhance.Color(image).enhance(0.7 + 0.6 * torch.rand(()).item())
        image = ImageEnhance.Contrast(image).enhance(0.8 + 0.4 * torch.rand(()).item())
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return pixels, torch.tensor([float(tag in tags) for tag in TAGS])


def tagger():
    blocks, channels = [], 3
    for width in (12, 24, 48):
        blocks += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, len(TAGS)))


def main():
    torch.manual_seed(0)
    root = Path(tempfile.gettempdir()) / "museum_server"
    dataset = Collection(FileServer(root), fill(root))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True, num_workers=4, persistent_workers=True)
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(3000):
        losses = []
        for i, (pixels, tags) in enumerate(loader, start=1):
            loss = nn.functional.binary_cross_entropy_with_logits(model(pixels), tags)
            (loss / ACCUMULATE).backward()
            losses.append(loss.item())
            if i % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(epoch, f"{np.mean(losses):.4f}")


if __name__ == "__main__":
    main()
