import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    images = torch.rand(4096, 512, dtype=torch.float64)  # fault
    labels = torch.randint(10, (4096,))
    model = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10_000):
        for x, y in DataLoader(TensorDataset(images, labels), batch_size=256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.float()), y).backward()
            optimizer.step()


main()
