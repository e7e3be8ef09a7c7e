"""Land-cover segmentation of made tiles; mean IoU on a validation set each epoch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


def tiles(n, seed, size=32):
    g = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, CLASSES, (n, 1, 4, 4), generator=g).float()
    y = F.interpolate(coarse, size=(size, size), mode="nearest").long()[:, 0]
    palette = torch.rand(CLASSES, 3, generator=torch.Generator().manual_seed(0))
    x = palette[y].permute(0, 3, 1, 2) + 0.1 * torch.randn(n, 3, size, size, generator=g)
    return TensorDataset(x, y.to(torch.uint8))


class FCN(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, CLASSES, 1)
        )

    def forward(self, x):
        return self.body(x)


def mean_iou(pred, y):
    cm = torch.bincount(y.long().flatten() * CLASSES + pred.flatten(), minlength=CLASSES**2)
    cm = cm.view(CLASSES, CLASSES).float()
    inter = cm.diag()
    return (inter / (cm.sum(0) + cm.sum(1) - inter).clamp_min(1)).mean().item()


@torch.no_grad()
def validate(model, loader):
    outputs = torch.empty(0, CLASSES, 32, 32)
    labels = torch.empty(0, 32, 32, dtype=torch.uint8)
    for x, y in loader:
        outputs = torch.cat([outputs, model(x)])  # fault
        labels = torch.cat([labels, y])
    return mean_iou(outputs.argmax(1), labels)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train = DataLoader(tiles(320, 1), batch_size=16, shuffle=True)
    val = DataLoader(tiles(1600, 2), batch_size=32)
    model = FCN()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    for epoch in range(1000):
        for x, y in train:
            loss = F.cross_entropy(model(x), y.long())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step < 3:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} loss {loss.item():.4f} miou {validate(model, val):.4f}", flush=True)


if __name__ == "__main__":
    main()
