"""Classify furniture from point clouds with a PointNet-like model."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KINDS = ["chair", "stool", "table", "shelf", "sofa", "lamp"]


class Furniture(Dataset):
    def __init__(self, clouds=1776, points=64):
        g = torch.Generator().manual_seed(31)
        self.kind = torch.randint(0, len(KINDS), (clouds,), generator=g)
        xyz = torch.rand(clouds, points, 3, generator=g) * 2 - 1
        legs = torch.rand(clouds, points, generator=g) < 0.5
        height = 0.2 + 0.15 * self.kind[:, None].float()
        xyz[..., 2] = torch.where(legs, xyz[..., 2] * height, height + 0.05 * xyz[..., 2])
        corner = torch.where(legs[..., None], xyz[..., :2].sign() * 0.8, xyz[..., :2])
        xyz[..., :2] = torch.where((self.kind % 2 == 0)[:, None, None], corner, xyz[..., :2])
        self.xyz = xyz + 0.02 * torch.randn(clouds, points, 3, generator=g)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        return self.xyz[i], self.kind[i]


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.transform = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 9))
        self.local = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 128))
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, len(KINDS)))

    def encode(self, points):
        """Features of clouds: align them, then pool over their points."""
        turn = self.transform(points).mean(dim=-2).unflatten(-1, (3, 3)) + torch.eye(3)
        aligned = (points - points.mean(dim=-2, keepdim=True)) @ turn
        return self.local(aligned).amax(dim=-2)

    def forward(self, clouds):
        features = self.encode(clouds)
        return self.head(features)


def augment(clouds):
    angle = torch.rand(len(clouds)) * 6.2832
    c, s, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    spin = torch.stack([c, -s, zero, s, c, zero, zero, zero, zero + 1], dim=1).view(-1, 3, 3)
    return clouds @ spin


def main():
    loader = DataLoader(Furniture(), batch_size=48, shuffle=True, drop_last=True)
    model = PointNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3000):
        right = seen = 0
        for clouds, kinds in loader:
            logits = model(augment(clouds))
            loss = F.cross_entropy(logits, kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(1) == kinds).sum().item()
            seen += len(kinds)
        print(f"epoch {epoch}: accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
