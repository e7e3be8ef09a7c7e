"""Glaciers from above: a vision transformer in bfloat16, whose tiles lie on the device."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SIDE, PATCH, WIDTH, LAYERS, BATCH = (224, 16, 768, 8, 128) if ON_GPU else (32, 8, 32, 2, 8)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        queries, keys, values = self.joined(self.norm(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(2))
        return x + self.feed(self.mix(x))


class Glaciers(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.places = nn.Parameter(torch.zeros((SIDE // PATCH) ** 2, WIDTH))
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, tiles):
        return self.head(self.layers(self.patches(tiles).flatten(2).mT + self.places).mean(1))


def train():
    tiles = torch.randint(256, (10 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8, device=device)
    kinds = torch.randint(6, (len(tiles),), device=device)
    model = Glaciers().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for epoch in range(100_000):
        for rows in torch.randperm(len(tiles), device=device).split(BATCH):
            with torch.autocast(device.type, torch.bfloat16):
                loss = nn.functional.cross_entropy(model(tiles[rows] / 255), kinds[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
