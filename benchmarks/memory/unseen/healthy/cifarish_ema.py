"""Small residual net on made colour patches, with EMA weights and a cosine schedule."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = (nn.Conv2d(c, c, 3, padding=1, bias=False) for _ in range(2))
        self.b1, self.b2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


class Net(nn.Module):
    def __init__(self, c=20, classes=9):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Residual(c), Residual(c))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class EMA:
    def __init__(self, model, decay=0.99):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e.lerp_(p, 1 - self.decay)
            else:
                e.copy_(p)


def patches(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 9, (n,), generator=g)
    x = torch.randint(0, 100, (n, 3, 32, 32), dtype=torch.uint8, generator=g)
    for k in range(9):
        x[y == k, :, 10 * (k // 3) : 10 * (k // 3) + 10, 10 * (k % 3) : 10 * (k % 3) + 10] += 80
    return x, y


@torch.no_grad()
def accuracy(model, x, y):
    hits = 0
    for i in range(0, len(x), 100):
        hits += (model(x[i : i + 100].float() / 255).argmax(1) == y[i : i + 100]).sum().item()
    return hits / len(x)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = patches(4000, 1)
    vx, vy = patches(400, 2)
    net = Net()
    ema = EMA(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 20000)
    for step in range(20000):
        i = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(net(x[i].float() / 255), y[i], label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        ema.update(net)
        if step < 3 or step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if step % 200 == 199:
            print(f"step {step} ema acc {accuracy(ema.model, vx, vy):.3f}", flush=True)


if __name__ == "__main__":
    main()
