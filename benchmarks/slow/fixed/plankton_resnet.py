"""A little residual network for grey plankton images."""

from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    classes: int = 30
    widths: list = field(default_factory=lambda: [32, 64, 96])
    batch: int = 32
    lr: float = 0.05
    pool: int = 1500


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.skip = nn.Conv2d(a, b, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.n1(self.conv1(x)))
        return F.relu(self.n2(self.conv2(y)) + self.skip(x))


class PlanktonNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        blocks, previous = [], cfg.widths[0]
        self.stem = nn.Conv2d(1, previous, 5, padding=2, stride=2)
        for i, width in enumerate(cfg.widths):
            blocks.append(Residual(previous, width, stride=1 if i == 0 else 2))
            previous = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(previous, cfg.classes)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


def make_pool(cfg, size=64):
    labels = torch.randint(0, cfg.classes, (cfg.pool,))
    ring = torch.linspace(-1, 1, size)
    radius = (ring[:, None] ** 2 + ring[None, :] ** 2).sqrt()
    turn = torch.atan2(ring[:, None].expand(size, size), ring[None, :].expand(size, size))
    arms = (labels % 6 + 1)[:, None, None]
    shape = torch.cos(arms * turn) * torch.sin(radius * (4 + labels // 6)[:, None, None])
    return (shape + 0.4 * torch.randn(cfg.pool, size, size)).unsqueeze(1), labels


def train(cfg):
    torch.manual_seed(21)
    images, labels = make_pool(cfg)
    model = PlanktonNet(cfg)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    accuracy, step = 0.0, 0
    while True:
        pick = torch.randint(0, cfg.pool, (cfg.batch,))
        logits = model(images[pick])
        loss = F.cross_entropy(logits, labels[pick])
        model.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = 0.97 * accuracy + 0.03 * (logits.argmax(1) == labels[pick]).float().mean().item()
        step += 1
        if step % 20 == 0:
            print(f"{step} loss {loss.item():.3f} accuracy {accuracy:.2f}")


if __name__ == "__main__":
    train(Config())
