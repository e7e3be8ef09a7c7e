"""Train a small CNN that tells leaf diseases apart on synthetic leaf photographs."""

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 12
BATCH = 32


def make_leaves(count, size=48):
    g = torch.Generator().manual_seed(7)
    labels = torch.randint(0, CLASSES, (count,), generator=g)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    leaf = ((xx / 0.6) ** 2 + (yy / 0.95) ** 2 < 1).float()
    spots = torch.stack([torch.sin((c + 3) * xx * 2) * torch.cos((c % 5 + 2) * yy * 3) for c in range(CLASSES)])
    images = torch.rand(count, 3, size, size, generator=g) * 0.4
    images[:, 1] += leaf * 0.5
    images[:, 0] += leaf * spots[labels].clamp(min=0) * 0.5
    return images, labels


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 32, 3, padding=1)
        self.c3 = nn.Conv2d(32, 64, 3, padding=1)
        self.b1, self.b2, self.b3 = nn.BatchNorm2d(16), nn.BatchNorm2d(32), nn.BatchNorm2d(64)
        self.fc1 = nn.Linear(64 * 6 * 6, 128)
        self.fc2 = nn.Linear(128, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.max_pool2d(F.relu(self.b2(self.c2(x))), 2)
        x = F.max_pool2d(F.relu(self.b3(self.c3(x))), 2)
        return self.fc2(F.dropout(F.relu(self.fc1(x.flatten(1))), 0.3, self.training))


def gradient_norm(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()


images, labels = make_leaves(3000)
net = LeafNet()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=20000)

step = 0
for epoch in range(2000):
    order = torch.randperm(len(images))
    for idx in order.split(BATCH):
        if len(idx) < BATCH:
            continue
        loss = F.cross_entropy(net(images[idx]), labels[idx], label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        norm = gradient_norm(net)
        if norm > 25.0:
            print(f"step {step}: gradient norm {norm:.1f}, batch skipped")
            continue
        opt.step()
        sched.step()
        if step % 50 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.3f} |g| {norm:.2f}")
        step += 1
