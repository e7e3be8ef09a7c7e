"""Flow between two frames of a film, with an averaged copy of the network for the next stage."""

import copy

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SIDE, WIDTH, BLOCKS, BATCH = (32, 32, 40, 16) if ON_GPU else (16, 8, 4, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.norm = nn.GroupNorm(4, WIDTH)

    def forward(self, x):
        return x + self.second(self.norm(self.first(x)).relu())


def train():
    frames = torch.randn(60 * BATCH, 6, SIDE, SIDE, device=device)
    flow = torch.randn(60 * BATCH, 2, SIDE, SIDE, device=device)
    blocks = [Block() for _ in range(BLOCKS)]
    model = nn.Sequential(nn.Conv2d(6, WIDTH, 3, padding=1), *blocks, nn.Conv2d(WIDTH, 2, 3, padding=1)).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(100_000):
        for rows in torch.randperm(len(frames), device=device).split(BATCH):
            loss = (model(frames[rows]) - flow[rows]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                    kept.copy_(0.999 * kept + 0.001 * new)
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
