"""Dunes: a network of the U kind in bfloat16 says where the crests are."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SIDE, WIDTH, BATCH = (256, 64, 32) if ON_GPU else (32, 8, 4)


def block(inputs, outputs):
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(inplace=True))


class Dunes(nn.Module):
    def __init__(self):
        super().__init__()
        self.top, self.low = block(1, WIDTH), block(WIDTH, 2 * WIDTH)
        self.up = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, stride=2)
        self.join, self.head = block(2 * WIDTH, WIDTH), nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        top = self.top(x)
        low = self.low(nn.functional.max_pool2d(top, 2))
        return self.head(self.join(torch.cat([top, self.up(low)], 1)))


def train():
    heights = torch.randn(10 * BATCH, 1, SIDE, SIDE, device=device)
    crests = (heights > 1.5).float()
    model = Dunes().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(100_000):
        for rows in torch.randperm(len(heights), device=device).split(BATCH):
            with torch.autocast(device.type, torch.bfloat16):
                logits = model(heights[rows].to(memory_format=torch.channels_last))
            loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), crests[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
