"""Clouds of the next hour, by a deep mixer whose layers may each have a learning rate."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
PATCHES, WIDTH, BLOCKS, BATCH = (64, 128, 32, 16) if ON_GPU else (16, 16, 6, 4)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.across = nn.Sequential(nn.Linear(PATCHES, PATCHES), nn.GELU(), nn.Linear(PATCHES, PATCHES))
        self.along = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.across(self.norms[0](x).mT).mT
        return x + self.along(self.norms[1](x))


def train():
    now, later = (torch.randn(50 * BATCH, PATCHES, 24, device=device) for _ in range(2))
    model = nn.Sequential(nn.Linear(24, WIDTH), *(Mixer() for _ in range(BLOCKS)), nn.Linear(WIDTH, 24)).to(device)
    groups = [{"params": [each], "lr": 3e-4, "weight_decay": 0.01} for each in model.parameters()]
    optimizer = torch.optim.AdamW(groups)
    for epoch in range(100_000):
        for rows in torch.randperm(len(now), device=device).split(BATCH):
            loss = nn.functional.mse_loss(model(now[rows]), later[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
