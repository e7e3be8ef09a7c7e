"""Old coins: a residual network in bfloat16 and channels last, fed by workers through pinned memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SIDE, WIDTH, BATCH, WORKERS = (128, 128, 128, 8) if ON_GPU else (24, 16, 8, 2)


class Coins(Dataset):
    def __init__(self):
        self.coins = torch.randint(256, (16 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8)
        self.rulers = torch.randint(50, (len(self.coins),))

    def __len__(self):
        return len(self.coins)

    def __getitem__(self, index):
        coin = self.coins[index]
        return coin.flip(-1) if torch.rand(()) < 0.5 else coin, self.rulers[index]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in range(2))

    def forward(self, x):
        return (x + self.norms[1](self.second(self.norms[0](self.first(x)).relu()))).relu()


def train():
    loader = DataLoader(
        Coins(), BATCH, True, num_workers=WORKERS, pin_memory=ON_GPU, persistent_workers=True, drop_last=True
    )
    blocks = [Block() for _ in range(4)]
    model = nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, 50),
    )
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    for epoch in range(100_000):
        for coins, rulers in loader:
            coins = coins.to(device, non_blocking=True).to(memory_format=torch.channels_last)
            rulers = rulers.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16):
                loss = nn.functional.cross_entropy(model(coins / 255), rulers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
