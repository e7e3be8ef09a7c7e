"""Bird calls: a small convolutional network on spectrograms, with the size of each layer's gradient in the log."""

import json

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
BANDS, FRAMES, WIDTH, BLOCKS, BATCH = (64, 64, 48, 24, 32) if ON_GPU else (16, 16, 8, 3, 8)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.point = nn.Conv2d(WIDTH, WIDTH, 1)
        self.norm = nn.GroupNorm(4, WIDTH)

    def forward(self, x):
        return x + self.point(self.norm(self.depth(x)).relu())


class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, WIDTH, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.head = nn.Linear(WIDTH, 24)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def train():
    calls = torch.randn(50 * BATCH, 1, BANDS, FRAMES, device=device)
    birds = torch.randint(24, (len(calls),), device=device)
    model = Calls().to(device)
    named = dict(model.named_parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log = open("gradients.jsonl", "w")
    for epoch in range(100_000):
        for rows in torch.randperm(len(calls), device=device).split(BATCH):
            loss = nn.functional.cross_entropy(model(calls[rows]), birds[rows])
            optimizer.zero_grad()
            loss.backward()
            sizes = {name: each.grad.norm().item() for name, each in named.items()}
            log.write(json.dumps(sizes) + "\n")
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
