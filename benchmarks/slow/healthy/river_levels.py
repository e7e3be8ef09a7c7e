"""River levels two days ahead, from rain upstream: a two-layer GRU fed by a generator of random windows."""

import numpy as np
import torch
from torch import nn

STATIONS, PAST, AHEAD = 16, 120, 16


def simulate(hours=50_000, seed=4):
    rng = np.random.default_rng(seed)
    rain = rng.gamma(0.1, 4.0, (hours, STATIONS)).astype(np.float32)
    kernel = np.exp(-np.arange(72) / 20)
    flows = [np.convolve(rain[:, s], np.roll(kernel, 3 * s), mode="full")[:hours] for s in range(STATIONS)]
    level = np.mean(flows, axis=0)
    return torch.from_numpy(rain), torch.from_numpy((level - level.mean()) / level.std()).float()


def windows(rain, level, batch_size, generator):
    reach = torch.arange(PAST + AHEAD)
    while True:
        start = torch.randint(len(level) - PAST - AHEAD, (batch_size, 1), generator=generator)
        at = start + reach
        past = torch.cat([rain[at[:, :PAST]], level[at[:, :PAST], None]], dim=2)
        yield past, level[at[:, PAST:]]


class RiverNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.gru = nn.GRU(STATIONS + 1, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, AHEAD)

    def forward(self, past):
        out, _ = self.gru(past)
        return self.head(out[:, -1])


def main():
    generator = torch.Generator().manual_seed(0)
    net = RiverNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    smooth = None
    for step, (past, ahead) in enumerate(windows(*simulate(), batch_size=32, generator=generator)):
        loss = nn.functional.smooth_l1_loss(net(past), ahead)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        if step % 20 == 0:
            value = loss.item()
            smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
            print(f"{step:7d} {smooth:.5f}", flush=True)


if __name__ == "__main__":
    main()
