"""Count cells in microscope images by regressing a density map.

The error on the validation set goes into the log at least every hundred steps.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(2024)


def make_images(n, size=40, most=12):
    axis = torch.arange(size).float()
    counts = torch.randint(1, most, (n,))
    density = torch.zeros(n, size, size)
    for k in range(most):
        cx, cy = torch.rand(2, n) * size
        bump = (
            torch.exp(-((axis - cx[:, None]) ** 2) / 18)[:, None, :]
            * torch.exp(-((axis - cy[:, None]) ** 2) / 18)[:, :, None]
        )
        density += bump * (k < counts).float()[:, None, None]
    image = density + 0.2 * torch.randn(n, size, size)
    return TensorDataset(image.unsqueeze(1), density.unsqueeze(1))


class DensityNet(nn.Sequential):
    def __init__(self, width=20):
        super().__init__(
            nn.Conv2d(1, width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2.0),
            nn.Conv2d(2 * width, 1, 3, padding=1),
        )


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    error, n = 0.0, 0
    for image, density in loader:
        predicted = model(image).sum((1, 2, 3))
        error += (predicted - density.sum((1, 2, 3))).abs().sum().item() / 56.5
        n += len(image)
    model.train()
    return error / n


train_set, val_set = random_split(make_images(2400), [1600, 800])
train_loader = DataLoader(train_set, batch_size=16, shuffle=True, drop_last=True)
val_loader = DataLoader(val_set, batch_size=50)

VALIDATE_EVERY = 50
model = DensityNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
best, step = float("inf"), 0

while step < 200_000:
    for image, density in train_loader:
        step += 1
        loss = F.mse_loss(model(image), density)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % VALIDATE_EVERY == 0:
            error = evaluate(model, val_loader)
            best = min(best, error)
            print(f"step {step}: train {loss.item():.5f}, validation off by {error:.2f} cells (best {best:.2f})")
