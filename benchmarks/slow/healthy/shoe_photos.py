"""Sort shoe photographs into eight styles with a small convolutional network."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ShoePhotos(Dataset):
    styles = ("boot", "clog", "heel", "loafer", "pump", "sandal", "slipper", "trainer")

    def __init__(self, count, side=56):
        g = torch.Generator().manual_seed(count)
        self.labels = torch.randint(0, len(self.styles), (count,), generator=g)
        ramp = torch.linspace(0, 1, side)
        sole = (ramp[:, None] > 0.75).float().expand(side, side)
        upper = [
            torch.relu(1 - (ramp[:, None] - 0.1 * s) ** 2 * 4 - (ramp[None] - 0.5) ** 2 * (s + 1)) for s in range(8)
        ]
        shapes = torch.stack(upper) * 0.6 + 0.3 * sole
        colour = torch.rand(count, 3, 1, 1, generator=g)
        self.photos = colour * shapes[self.labels][:, None] + 0.15 * torch.randn(count, 3, side, side, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.photos[index], self.labels[index]


def conv(inp, out):
    return nn.Sequential(
        nn.Conv2d(inp, out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


def main():
    torch.manual_seed(0)
    loader = DataLoader(ShoePhotos(2400), batch_size=32, shuffle=True, drop_last=True)
    model = nn.Sequential(conv(3, 32), conv(32, 64), conv(64, 96), nn.Flatten(), nn.Linear(96 * 7 * 7, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1000):
        correct = seen = 0
        for photos, labels in loader:
            output = model(photos)
            loss = criterion(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (output.argmax(1) == labels).sum().item()
            seen += len(labels)
        print(f"epoch {epoch}: accuracy {correct / seen:.3f}, last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
