"""SimCLR on 1-d waves; loss over a similarity matrix, negatives from a fixed-size queue."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class WaveEncoder(nn.Module):
    def __init__(self, out=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 24, 9, 2, 4),
            nn.ReLU(),
            nn.Conv1d(24, 48, 9, 2, 4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
        )
        self.proj = nn.Linear(48 * 4, out)

    def forward(self, x):
        return F.normalize(self.proj(self.conv(x[:, None])), dim=1)


class NegativeQueue:
    def __init__(self, size, dim):
        self.data = F.normalize(torch.randn(size, dim), dim=1)
        self.at = 0

    @torch.no_grad()
    def push(self, z):
        i = (torch.arange(len(z)) + self.at) % len(self.data)
        self.data[i] = z
        self.at = (self.at + len(z)) % len(self.data)


def jitter(x):
    x = x * (0.8 + 0.4 * torch.rand(len(x), 1)) + 0.1 * torch.randn_like(x)
    return torch.roll(x, int(torch.randint(-10, 10, ())), dims=1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    t = torch.linspace(0, 20, 256)
    data = torch.sin(t * (0.5 + 4 * torch.rand(4000, 1))) * torch.cos(t * torch.rand(4000, 1))
    net = WaveEncoder()
    queue = NegativeQueue(4096, 64)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    running = []
    step = 0
    for epoch in range(2000):
        for idx in torch.randperm(len(data)).split(128):
            x = data[idx]
            a, b = net(jitter(x)), net(jitter(x))
            pos = (a * b).sum(1, keepdim=True)
            neg = a @ queue.data.clone().t()
            logits = torch.cat([pos, neg], 1) / 0.1
            loss = F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            queue.push(b.detach())
            running.append(loss.detach().item())
            if step < 3:
                print(f"step {step} loss {running[-1]:.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} loss {sum(running) / len(running):.4f}", flush=True)
        running.clear()


if __name__ == "__main__":
    main()
