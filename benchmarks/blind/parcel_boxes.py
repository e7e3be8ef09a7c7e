"""Locate the parcel on conveyor-belt photographs: box regression from JPEG files."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

SIZE = 128


def write_photos(root, count=400, seed=21):
    """JPEG files plus one annotation file in a COCO-like layout."""
    rng = np.random.default_rng(seed)
    belt = rng.integers(60, 110, (SIZE, SIZE, 3), dtype=np.uint8)
    annotations = []
    for i in range(count):
        photo = Image.fromarray(np.roll(belt, int(rng.integers(SIZE)), axis=0))
        x0, y0 = rng.integers(4, 70, 2)
        w, h = rng.integers(20, 54, 2)
        box = [int(v) for v in (x0, y0, x0 + w, y0 + h)]
        colour = tuple(int(v) for v in rng.integers(120, 256, 3))
        ImageDraw.Draw(photo).rectangle(box, fill=colour, outline=(20, 20, 20))
        name = f"belt_{i:05d}.jpg"
        photo.save(root / name, quality=90)
        outline = np.stack([np.linspace(box[0], box[2], 12), np.linspace(box[1], box[3], 12)], 1)
        annotations.append(
            {
                "id": i,
                "file_name": name,
                "bbox": box,
                "area": int(w * h),
                "iscrowd": 0,
                "category": "parcel",
                "segmentation": outline.round(2).ravel().tolist(),
            }
        )
    (root / "annotations.json").write_text(json.dumps({"annotations": annotations}))


class ParcelPhotos(Dataset):
    def __init__(self, root):
        self.root = Path(root)
        self.files = sorted(self.root.glob("*.jpg"))
        self.annotation_path = self.root / "annotations.json"

    def read_annotations(self):
        entries = json.loads(self.annotation_path.read_text())["annotations"]
        return {e["file_name"]: e for e in entries}

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        with Image.open(path) as photo:
            pixels = torch.from_numpy(np.array(photo.convert("RGB")))
        annotation = self.read_annotations()[path.name]
        image = pixels.permute(2, 0, 1).float().div_(255)
        box = torch.tensor(annotation["bbox"], dtype=torch.float32) / SIZE
        return image, box


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        channels = [3, 16, 32, 48, 64]
        layers = []
        for cin, cout in zip(channels, channels[1:]):
            layers += [
                nn.Conv2d(cin, cout, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.Conv2d(cout, cout, 3, padding=1),
                nn.BatchNorm2d(cout),
                nn.ReLU(),
            ]
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x):
        return self.head(self.backbone(x)).sigmoid()


def box_iou(a, b):
    top = torch.maximum(a[:, :2], b[:, :2])
    bottom = torch.minimum(a[:, 2:], b[:, 2:])
    inter = (bottom - top).clamp(min=0).prod(1)
    area = lambda q: (q[:, 2:] - q[:, :2]).clamp(min=0).prod(1)
    return inter / (area(a) + area(b) - inter).clamp(min=1e-6)


def main():
    torch.manual_seed(21)
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder))
        loader = DataLoader(ParcelPhotos(folder), batch_size=16, shuffle=True)
        model = BoxNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
        for epoch in range(1000):
            model.train()
            loss_sum, iou_sum = 0.0, 0.0
            for images, boxes in loader:
                pred = model(images)
                loss = F.smooth_l1_loss(pred, boxes, beta=0.05)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss_sum += loss.item()
                iou_sum += box_iou(pred.detach(), boxes).mean().item()
            print(f"epoch {epoch}: loss {loss_sum / len(loader):.5f}, IoU {iou_sum / len(loader):.3f}", flush=True)


if __name__ == "__main__":
    main()
