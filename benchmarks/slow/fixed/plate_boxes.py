"""Localise the number plate in a picture: regress one box with a generalised IoU loss."""

import torch
from torch import nn


def pictures(n, size=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    w = 0.2 + 0.3 * torch.rand(n, generator=g)
    h = 0.08 + 0.12 * torch.rand(n, generator=g)
    x = torch.rand(n, generator=g) * (1 - w)
    y = torch.rand(n, generator=g) * (1 - h)
    boxes = torch.stack([x, y, x + w, y + h], dim=1)
    axis = (torch.arange(size) + 0.5) / size
    inside_x = (axis >= x[:, None]) & (axis <= (x + w)[:, None])
    inside_y = (axis >= y[:, None]) & (axis <= (y + h)[:, None])
    plate = (inside_y[:, :, None] & inside_x[:, None, :]).float()
    images = 0.5 * torch.rand(n, 1, size, size, generator=g) + 0.5 * plate[:, None]
    return images, boxes


def giou_loss(p, t):
    width = (torch.min(p[2], t[2]) - torch.max(p[0], t[0])).clamp(min=0)
    height = (torch.min(p[3], t[3]) - torch.max(p[1], t[1])).clamp(min=0)
    overlap = width * height
    union = (p[2] - p[0]) * (p[3] - p[1]) + (t[2] - t[0]) * (t[3] - t[1]) - overlap
    hull_w = torch.max(p[2], t[2]) - torch.min(p[0], t[0])
    hull = hull_w * (torch.max(p[3], t[3]) - torch.min(p[1], t[1]))
    return 1 - overlap / (union + 1e-6) + (hull - union) / (hull + 1e-6)


class PlateFinder(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width = [], 1
        for out in (12, 24, 32):
            layers += [nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
            width = out
        self.features = nn.Sequential(*layers)
        self.box = nn.Linear(32 * 6 * 6, 4)

    def forward(self, x):
        cx, cy, w, h = self.box(self.features(x).flatten(1)).sigmoid().unbind(1)
        return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=1)


images, boxes = pictures(2000)
model = PlateFinder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(1_000_000):
    idx = torch.randint(0, len(images), (64,))
    predicted = model(images[idx])
    loss = giou_loss(predicted.unbind(1), boxes[idx].unbind(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, round(loss.item(), 4))
