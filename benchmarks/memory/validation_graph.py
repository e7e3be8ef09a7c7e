import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def validate(model: nn.Module, x: torch.Tensor) -> float:
    out = model(x)  # fault
    return float(out.mean())


def main() -> None:
    data = TensorDataset(torch.randn(1024, 256), torch.randint(10, (1024,)))
    loader = DataLoader(data, batch_size=128)
    held_out = torch.randn(8192, 256)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10_000):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        validate(model, held_out)


main()
