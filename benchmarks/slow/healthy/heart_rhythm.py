"""Recognise heart rhythms in single-lead recordings with a two-layer LSTM."""

import argparse

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

RHYTHMS = ["sinus", "fibrillation", "flutter", "bigeminy"]


def recordings(count, length):
    label = torch.randint(0, len(RHYTHMS), (count,))
    rate = 0.25 + 0.1 * torch.rand(count, 1)
    jitter = torch.where(label[:, None] == 1, 0.4, 0.02) * torch.randn(count, length)
    phase = torch.cumsum(rate + jitter.clamp(min=-0.2), dim=1)
    signal = torch.exp(4 * (torch.cos(phase) - 1))
    signal += (label[:, None] == 2) * 0.3 * torch.sin(5 * phase)
    signal += (label[:, None] == 3) * 0.5 * torch.exp(4 * (torch.cos(phase / 2 + 1) - 1))
    return TensorDataset((signal + 0.1 * torch.randn(count, length)).unsqueeze(-1), label)


class RhythmNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.shorten = nn.Conv1d(1, 32, kernel_size=7, stride=4, padding=3)
        self.lstm = nn.LSTM(32, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, len(RHYTHMS))

    def forward(self, signal):
        x = torch.relu(self.shorten(signal.transpose(1, 2))).transpose(1, 2)
        states, _ = self.lstm(x)
        return self.out(states.mean(dim=1))


def fit(args):
    torch.manual_seed(args.seed)
    data = recordings(3000, 512)
    sampler = BatchSampler(RandomSampler(data), args.batch, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    model = RhythmNet(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        losses = 0.0
        for signal, label in loader:
            loss = nn.functional.cross_entropy(model(signal), label)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses += loss.item()
        print(f"epoch {epoch:3d}: mean loss {losses / len(sampler):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=80)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=5)
    fit(parser.parse_args())
