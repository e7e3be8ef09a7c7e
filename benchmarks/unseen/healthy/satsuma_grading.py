"""Grades satsumas by the look of their peel, from small photographs on disk."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.utils.data import DataLoader, Dataset

GRADES = 4


def photograph(folder, count=600):
    rng = np.random.default_rng(9)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(count):
        grade = number % GRADES
        image = Image.new("RGB", (64, 64), (40, 60, 40))
        draw = ImageDraw.Draw(image)
        draw.ellipse((6, 6, 58, 58), fill=(235, int(rng.integers(110, 150)), 30))
        for x, y in rng.integers(15, 48, (3 * grade, 2)).tolist():
            draw.ellipse((x, y, x + 3, y + 3), fill=(110, 70, 20))
        path = folder / f"{number:04d}_{grade}.jpg"
        image.save(path, quality=90)
        files.append(path)
    return files


class Peel(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        with Image.open(path) as image:
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        if torch.rand(()) < 0.5:
            pixels = pixels.flip(2)
        return pixels, int(path.stem[-1])


class Block(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(inside, out, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.skip(x))


def main():
    torch.manual_seed(0)
    files = photograph(Path(tempfile.gettempdir()) / "satsumas")
    loader = DataLoader(
        Peel(files), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True, drop_last=True
    )
    model = nn.Sequential(
        Block(3, 24, 1),
        Block(24, 48, 2),
        Block(48, 96, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, GRADES),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(400):
        right = seen = 0
        for pixels, grade in loader:
            scores = model(pixels.float().div(255).sub(0.5))
            loss = criterion(scores, grade)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (scores.argmax(dim=1) == grade).sum().item()
            seen += len(grade)
        print(f"epoch {epoch} accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
