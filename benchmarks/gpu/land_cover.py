"""Land cover from satellite tiles: a small network that says for each pixel what grows there, with soft labels."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
KINDS, SIDE, WIDTH, BATCH, TILES = (48, 128, 32, 32, 512) if ON_GPU else (12, 32, 8, 4, 64)


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


def train():
    tiles = torch.randint(256, (TILES, 4, SIDE, SIDE), dtype=torch.uint8)
    cover = torch.randint(KINDS, (TILES, SIDE, SIDE))
    loader = DataLoader(TensorDataset(tiles, cover), BATCH, shuffle=True, num_workers=4 if ON_GPU else 0)
    model = nn.Sequential(block(4, WIDTH), block(WIDTH, WIDTH), block(WIDTH, WIDTH), nn.Conv2d(WIDTH, KINDS, 1))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(100_000):
        for images, kinds in loader:
            images = images.to(device).float() / 255
            wanted = nn.functional.one_hot(kinds, KINDS).movedim(-1, 1).float().mul(0.9).add(0.1 / KINDS).to(device)
            loss = -(model(images).log_softmax(1) * wanted).sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
