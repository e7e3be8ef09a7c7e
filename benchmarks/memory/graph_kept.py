import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    data = TensorDataset(torch.randn(2048, 256), torch.randint(10, (2048,)))
    loader = DataLoader(data, batch_size=256)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros(())
    for _ in range(10_000):
        for x, y in loader:
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            error = (out.softmax(1) - nn.functional.one_hot(y, 10)).square().mean()
            total = total + error  # fault


main()
