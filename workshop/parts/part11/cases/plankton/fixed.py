"""Plankton from a flow camera: six classes, small grey pictures, a little residual net."""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

N_CLASSES = 6


def draw_plankton(root, n=352):
    rng = random.Random(3)
    for i in range(n):
        im = Image.new("L", (96, 96), 20)
        d = ImageDraw.Draw(im)
        for k in range(i % N_CLASSES + 2):
            a, r = 6.28 * k / (i % N_CLASSES + 2) + rng.random(), rng.uniform(12, 40)
            d.line((48, 48, 48 + r * np.cos(a), 48 + r * np.sin(a)), fill=rng.randint(120, 255), width=3)
        d.ellipse((38, 38, 58, 58), fill=rng.randint(90, 220))
        im.save(root / f"{i % N_CLASSES}_{i:04d}.png")


class FlowCam(Dataset):
    def __init__(self, root):
        self.paths = sorted(root.glob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path = self.paths[i]
        im = Image.open(path).convert("L")
        im = im.resize((72, 72), Image.Resampling.LANCZOS)
        im = im.rotate(random.choice((0, 90, 180, 270)))
        x, y = random.randint(0, im.width // 9), random.randint(0, im.height // 9)
        im = im.crop((x, y, x + im.width * 8 // 9, y + im.height * 8 // 9)).resize((64, 64), Image.Resampling.BILINEAR)
        x = torch.from_numpy(np.array(im, dtype=np.float32)[None] / 255 - 0.3)
        return x, int(path.name.split("_")[0])


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 24, 5, stride=2, padding=2)
        self.body = nn.Sequential(Res(24), nn.MaxPool2d(2), Res(24), nn.MaxPool2d(2), Res(24))
        self.fc = nn.Linear(24, N_CLASSES)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


root = Path(tempfile.mkdtemp(prefix="plankton_"))
draw_plankton(root)
dl = DataLoader(FlowCam(root), batch_size=16, shuffle=True, drop_last=True)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=400)
for ep in range(400):
    net.train()
    tot = 0
    for x, y in dl:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        tot += float(loss)
    sched.step()
    print(f"ep {ep:03d} loss {tot / len(dl):.4f} lr {sched.get_last_lr()[0]:.4f}")
