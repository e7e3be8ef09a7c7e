"""Classifies drawn flowers by their number of petals, with a plain residual net and two loader workers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 64


class Flowers(Dataset):
    def __init__(self, count=2000):
        g = torch.Generator().manual_seed(0)
        axis = torch.linspace(-1, 1, SIZE)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        angle, radius = torch.atan2(y, x), (x**2 + y**2).sqrt()
        self.labels = torch.randint(6, (count,), generator=g)
        turn = 6.28 * torch.rand(count, 1, 1, generator=g)
        petals = torch.cos((self.labels[:, None, None] + 3) * angle + turn)
        inside = (radius < 0.5 + 0.3 * petals).float()
        tint = torch.rand(count, 3, 1, 1, generator=g)
        self.images = (255 * (0.2 + 0.7 * tint * inside[:, None])).to(torch.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        return image.flip(-1) if i % 2 else image, self.labels[i]


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.skip = nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        return torch.relu(self.path(x) + self.skip(x))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Flowers(), batch_size=24, shuffle=True, num_workers=2, persistent_workers=True, drop_last=True)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        Block(32, 32, 2),
        Block(32, 64, 2),
        Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 6),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(100):
        running = torch.zeros(())
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.float() / 127.5 - 1), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
        print(f"epoch {epoch}: loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
