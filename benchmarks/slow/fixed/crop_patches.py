"""Names the crop on a satellite patch, from four bands that lie on the archive's share."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANDS = ["B02", "B03", "B04", "B08"]
CROPS = ["wheat", "maize", "rape", "beet", "fallow"]
SHARE_LATENCY = 0.012  # seconds until the share has opened a file, as measured from our office


def write_archive(root, patches):
    rng = np.random.default_rng(7)
    signature = rng.uniform(0.1, 0.7, (len(CROPS), len(BANDS)))
    for n in range(patches):
        fields = [signature[n % len(CROPS), b] + rng.normal(0, 0.15, (32, 32)) for b in range(len(BANDS))]
        np.save(root / f"{n:05d}.npy", np.stack(fields).astype(np.float32))


class Patches(Dataset):
    def __init__(self, root, patches):
        self.root, self.patches = root, patches

    def __len__(self):
        return self.patches

    def __getitem__(self, n):
        time.sleep(SHARE_LATENCY)
        image = np.load(self.root / f"{n:05d}.npy")
        if n % 2:
            image = image[:, :, ::-1].copy()
        return torch.from_numpy(image), n % len(CROPS)


def build():
    def block(cin, cout):
        return [nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(len(BANDS), 32), *block(32, 64), *block(64, 96), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96 * 16, 5)
    )


def main(args):
    root = Path(tempfile.mkdtemp(prefix="patches-"))
    write_archive(root, args.patches)
    loader = DataLoader(
        Patches(root, args.patches), args.batch, shuffle=True, num_workers=args.workers, persistent_workers=True
    )
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    step = 0
    for _ in range(args.epochs):
        for image, crop in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(image), crop)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patches", type=int, default=600)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--lr", type=float, default=0.01)
    main(parser.parse_args())
