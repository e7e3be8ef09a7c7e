"""Temporal convolution network that tags every frame of an accelerometer recording."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_CLASSES = 6


def recordings(n, length, channels=6, seed=0):
    rng = np.random.default_rng(seed)
    freq = rng.uniform(0.02, 0.2, (N_CLASSES, channels))
    amp = rng.uniform(0.2, 1.5, (N_CLASSES, channels))
    labels = np.repeat(rng.integers(0, N_CLASSES, (n, length // 64)), 64, axis=1)
    t = np.arange(length)[None, :, None]
    x = amp[labels] * np.sin(2 * np.pi * freq[labels] * t) + 0.6 * rng.normal(size=(n, length, channels))
    x = torch.from_numpy(x.astype(np.float32)).transpose(1, 2).contiguous()
    return x, torch.from_numpy(labels)


class TemporalBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(F.relu(self.norm(self.conv(x))))


class Tagger(nn.Module):
    def __init__(self, channels=6, width=64, depth=6):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 7, padding=3)
        self.blocks = nn.Sequential(*[TemporalBlock(width, 2**i) for i in range(depth)])
        self.head = nn.Conv1d(width, N_CLASSES, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


@torch.inference_mode()
def evaluate(model, x, y, batch_size):
    model.eval()
    confusion = torch.zeros(N_CLASSES * N_CLASSES, dtype=torch.long)
    for xb, yb in zip(x.split(batch_size), y.split(batch_size)):
        pred = model(xb).argmax(1)
        confusion += torch.bincount((yb * N_CLASSES + pred).flatten(), minlength=N_CLASSES**2)
    c = confusion.view(N_CLASSES, N_CLASSES).double()
    f1 = 2 * c.diagonal() / (c.sum(0) + c.sum(1)).clamp(min=1)
    return (c.diagonal().sum() / c.sum()).item(), f1.mean().item()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=1000)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--val-every", type=int, default=5)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    x, y = recordings(720, 512)
    x_train, y_train, x_val, y_val = x[:640], y[:640], x[640:], y[640:]
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    steps = len(x_train) // args.batch_size
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps * args.epochs)

    best = 0.0
    for epoch in range(args.epochs):
        tic = time.perf_counter()
        model.train()
        loss_sum = torch.zeros(())
        for idx in torch.randperm(len(x_train)).split(args.batch_size):
            loss = F.cross_entropy(model(x_train[idx]), y_train[idx], label_smoothing=0.05)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            loss_sum += loss.detach()
        line = f"epoch {epoch:4d} loss {loss_sum.item() / steps:.4f} lr {scheduler.get_last_lr()[0]:.2e}"
        if (epoch + 1) % args.val_every == 0:
            acc, f1 = evaluate(model, x_val, y_val, 4 * args.batch_size)
            best = max(best, f1)
            line += f" val acc {acc:.4f} f1 {f1:.4f} best {best:.4f}"
        print(f"{line} {time.perf_counter() - tic:.1f}s", flush=True)


if __name__ == "__main__":
    main()
