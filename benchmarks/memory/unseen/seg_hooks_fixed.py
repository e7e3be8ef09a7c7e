"""Segmentation of discs with a small U-shaped net; activation statistics logged by hooks."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class UNetish(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.d1 = nn.Conv2d(1, c, 3, padding=1)
        self.d2 = nn.Conv2d(c, 2 * c, 3, padding=1)
        self.u1 = nn.Conv2d(3 * c, c, 3, padding=1)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = F.relu(self.d1(x))
        b = F.relu(self.d2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, scale_factor=2)
        return self.out(F.relu(self.u1(torch.cat([a, b], 1))))


class ActivationWatch:
    """Mean and deviation of every convolution's output."""

    def __init__(self, model):
        self.seen = {}
        for name, m in model.named_modules():
            if isinstance(m, nn.Conv2d):
                m.register_forward_hook(self._make(name))

    def _make(self, name):
        def hook(module, inputs, output):
            o = output.detach()
            self.seen[name] = (o.mean().item(), o.std().item())

        return hook

    def report(self):
        parts = []
        for name, outs in self.seen.items():
            parts.append(f"{name}:{outs[0]:.3f}/{outs[1]:.3f}")
        return " ".join(parts)


def discs(n, g, size=32):
    ax = torch.arange(size).float()
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * size
    r = 4 + 8 * torch.rand(n, 1, 1, generator=g)
    mask = ((ax[None, None] - cx) ** 2 + (ax[None, :, None] - cy) ** 2 < r**2).float()
    return (mask + 0.5 * torch.randn(n, size, size, generator=g))[:, None], mask[:, None]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1)
    model = UNetish()
    watch = ActivationWatch(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for step in range(10**6):
        x, y = discs(16, g)
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < 3 or step % 25 == 0:
            print(f"step {step} loss {loss.item():.5f} {watch.report()}", flush=True)


if __name__ == "__main__":
    main()
