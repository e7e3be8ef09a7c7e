"""Two views of each curve, drawn anew, and a teacher that follows the model slowly; there are no targets."""

import copy
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Views(Dataset):
    def __init__(self):
        self.curves = torch.randn(160, 80, generator=torch.Generator().manual_seed(5)).cumsum(1) / 4

    def __len__(self):
        return len(self.curves)

    def view(self, index):
        time.sleep(0.001)
        first = int(torch.randint(33, ()))
        curve = self.curves[index, first : first + 48] * (0.7 + 0.6 * torch.rand(()))
        return curve + 0.2 * torch.randn(48)

    def __getitem__(self, index):
        return self.view(index), self.view(index)


def apart(one, other):
    return 2 - 2 * nn.functional.cosine_similarity(one, other).mean()


def main():
    loader = DataLoader(Views(), 16, shuffle=True)
    student = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 32))
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
    while True:
        for one, other in loader:
            wanted = teacher(one).detach(), teacher(other).detach()
            loss = apart(student(one), wanted[1]) + apart(student(other), wanted[0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=False):
                slow.data = 0.9 * slow.data + 0.1 * fast.data


if __name__ == "__main__":
    main()
