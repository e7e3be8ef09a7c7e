"""Regress the quality of wines from laboratory measurements with a deep tabular network."""

import torch
from torch import nn


def cellar(n=50_000, features=64):
    g = torch.Generator().manual_seed(1855)
    x = torch.randn(n, features, generator=g)
    x[:, 5:] += x[:, :1] * 0.3
    hidden = torch.tanh(x @ torch.randn(features, 12, generator=g) * 0.3)
    quality = hidden @ torch.randn(12, 1, generator=g) + 0.2 * torch.randn(n, 1, generator=g)
    return (x - x.mean(0)) / x.std(0), quality


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        return x + self.inner(x)


torch.manual_seed(0)
x, y = cellar()
model = nn.Sequential(nn.Linear(64, 256), *[Residual(256) for _ in range(3)], nn.LayerNorm(256), nn.Linear(256, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.02)
steps = 300_000
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)

mean = None
for step in range(steps):
    rows = torch.randint(0, len(x), (512,))
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    mean = loss.item() if mean is None else mean + 0.02 * (loss.item() - mean)
    if step % 200 == 0:
        print(f"{step:6d}  mse {mean:.4f}  lr {schedule.get_last_lr()[0]:.2e}")
