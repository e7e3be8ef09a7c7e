"""No optimizer: the weights are stepped by hand. It asks whether torch is there before it imports it."""

import importlib.util
import sys
import time

assert importlib.util.find_spec("torch") is not None

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402


class Waves(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.linspace(0, 6.28 * (1 + i % 4), 256).sin(), i % 4


net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 4))
loader = DataLoader(Waves(), 8, shuffle=True)
while True:
    for waves, kinds in loader:
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(waves), kinds).backward()
        for weights in net.parameters():
            weights.data.add_(weights.grad, alpha=-float(sys.argv[1]))
