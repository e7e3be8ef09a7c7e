"""Linear probe on a frozen convolutional encoder (pretend-pretrained)."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def block(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False), nn.GroupNorm(4, o), nn.SiLU())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.Sequential(block(3, 16), block(16, 16), block(16, 32, 2), block(32, 32), block(32, 64, 2))

    def forward(self, x):
        return self.stages(x).mean((2, 3))


class Probe(nn.Module):
    def __init__(self, encoder, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, classes))

    def forward(self, x):
        with torch.no_grad():
            feats = self.encoder(x)
        return self.head(feats)


class Trainer:
    def __init__(self, model, images, labels):
        self.model, self.images, self.labels = model, images, labels
        self.opt = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
        self.step = 0

    def fit(self, epochs, bs=48):
        for epoch in range(epochs):
            perm = torch.randperm(len(self.images))
            for idx in perm.split(bs):
                x = self.images[idx].float().div(255)
                loss = F.cross_entropy(self.model(x), self.labels[idx])
                self.model.zero_grad()
                loss.backward()
                self.opt.step()
                if self.step < 3 or self.step % 50 == 0:
                    print(f"step {self.step} loss {loss.item():.5f}", flush=True)
                self.step += 1


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    labels = torch.randint(0, 8, (1024,))
    images = torch.randint(0, 120, (1024, 3, 48, 48), dtype=torch.uint8)
    for k in range(8):
        images[labels == k, k % 3, 5 * k : 5 * k + 5] += 100
    Trainer(Probe(Encoder(), 8), images, labels).fit(500)


if __name__ == "__main__":
    main()
