import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    data = TensorDataset(torch.randn(2048, 1024), torch.randint(10, (2048,)))
    loader = DataLoader(data, batch_size=512)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10_000):
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()  # fault
            optimizer.step()


main()
