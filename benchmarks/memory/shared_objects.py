import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 1_000_000


class Names(Dataset):
    def __init__(self) -> None:
        self.names = [f"item-{number:09d}" for number in range(LENGTH)]  # fault

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((64,), float(len(str(self.names[index]))))


def main() -> None:
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10_000):
        for x in DataLoader(Names(), batch_size=1024, shuffle=True, num_workers=4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
