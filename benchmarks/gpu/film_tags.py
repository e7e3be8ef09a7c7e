"""Tags for films: each tag is a yes or no of its own, and rare ones weigh more."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
FEATURES, WIDTH, TAGS, BATCH = (1024, 1024, 120, 512) if ON_GPU else (64, 64, 24, 32)


def focal(logits, wanted, weights):
    total = torch.zeros((), device=logits.device)
    for tag in range(logits.shape[1]):
        chance = torch.sigmoid(logits[:, tag])
        sure = torch.where(wanted[:, tag] > 0, chance, 1 - chance).clamp_min(1e-6)
        total = total - (weights[tag] * (1 - sure) ** 2 * sure.log()).mean()
    return total / logits.shape[1]


def train():
    films = torch.randn(40 * BATCH, FEATURES, device=device)
    wanted = (torch.rand(len(films), TAGS, device=device) < 0.05).float()
    weights = torch.linspace(0.5, 2.0, TAGS, device=device)
    model = nn.Sequential(
        nn.Linear(FEATURES, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, TAGS),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(100_000):
        for rows in torch.randperm(len(films), device=device).split(BATCH):
            loss = focal(model(films[rows]), wanted[rows], weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    train()
