"""Train a nowcast of rain: small, real, and with far more in memory than it needs.

    python nowcast.py --epochs 2

This is the file that you edit in part 12. A small network sees four pictures of a rain radar, and forecasts the
next six. After each epoch the script prints three figures: the loss of the training; the loss of the validation, on
other sequences; and the skill, the share of all pixels with rain, forecast or fallen, where it was both.

You may change when something is computed, and how long it is kept. You may not change what is computed: the model, the
optimizer, the batches of 16 sequences, the sequences of the validation, and the three figures of each epoch.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

from workshop.device import choose_device
from workshop.errors import plain_errors

SIDE = 48
"""The number of pixels on a side of a picture; a value is the rain of a pixel in mm/h, divided by ten."""

SEEN, AHEAD = 4, 6
"""The network is shown so many pictures of a sequence, and forecasts so many."""

SHOWERS = 5
"""The number of showers in a sequence."""

BATCH_SIZE = 16

WET = 0.1
"""From this value on, it rains."""


class RadarSequences(Dataset[tuple[Tensor, Tensor]]):
    """Showers that drift with the wind, grow and fade; an item is what is seen (4, side, side) and what follows."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.origin = torch.rand(count, SHOWERS, 2, generator=generator) * SIDE
        self.wind = torch.randn(count, 1, 2, generator=generator) * 1.5
        self.width = 2 + 4 * torch.rand(count, SHOWERS, generator=generator)
        self.peak = torch.rand(count, SHOWERS, generator=generator)
        self.growth = torch.randn(count, SHOWERS, generator=generator) * 0.1

    def __len__(self) -> int:
        return len(self.origin)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        times = torch.arange(SEEN + AHEAD)[:, None]
        centres = self.origin[index] + times[..., None] * self.wind[index]
        distances = (torch.arange(SIDE) - centres[..., None]) / self.width[index][:, None, None]
        down, across = torch.exp(-(distances**2)).unbind(2)
        strengths = self.peak[index] * torch.exp(times * self.growth[index])
        pictures = torch.einsum("ts,tsy,tsx->tyx", strengths, down, across)
        return pictures[:SEEN], pictures[SEEN:]


class Nowcast(nn.Module):
    """Moves the last picture on, time after time, by what it remembers of the ones before."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.look = nn.Conv2d(SEEN, width, 5, padding=2)
        self.remember = nn.Conv2d(width + 1, width, 3, padding=1)
        self.change = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return the forecast (batch, 6, side, side) that follows what was seen (batch, 4, side, side)."""
        memory, picture = torch.tanh(self.look(seen)), seen[:, -1:]
        pictures = []
        for _ in range(AHEAD):
            memory = torch.tanh(self.remember(torch.cat([memory, picture], 1)))
            picture = torch.relu(picture + self.change(memory))
            pictures.append(picture)
        return torch.cat(pictures, 1)


def skill(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """Return the share of the pixels with rain, in the forecast or in what has fallen, that have it in both."""
    both = either = 0
    for forecast, fallen in pairs:
        both += int(((forecast >= WET) & (fallen >= WET)).sum())
        either += int(((forecast >= WET) | (fallen >= WET)).sum())
    return both / max(either, 1)


def validate(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], device: torch.device) -> float:
    """Return the mean loss on the sequences of the validation."""
    model.eval()
    total = torch.zeros((), device=device)
    for seen, fallen in loader:
        total += nn.functional.mse_loss(model(seen.to(device)), fallen.to(device))
    model.train()
    return total.item() / len(loader)


def main(epochs: int, sequences: int, seed: int, device: torch.device) -> None:
    """Train the network, and print how well it does after each epoch."""
    torch.manual_seed(seed)
    training = DataLoader(RadarSequences(sequences, seed=1), BATCH_SIZE, shuffle=True)
    validation = DataLoader(RadarSequences(sequences // 4, seed=2), BATCH_SIZE)
    model = Nowcast().to(device)
    optimizer = AdamW(model.parameters(), lr=0.003)
    for epoch in range(1, epochs + 1):
        losses, pairs = [], []
        for seen, fallen in training:
            seen, fallen = seen.to(device), fallen.to(device)
            optimizer.zero_grad()
            forecast = model(seen)
            loss = nn.functional.mse_loss(forecast, fallen)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            pairs.append((forecast, fallen))
        trained = sum(losses) / len(losses)
        validated = validate(model, validation, device)
        print(f"Epoch {epoch}: loss {trained:.4f}, in validation {validated:.4f}, skill {skill(pairs):.3f}", flush=True)


def prepare() -> tuple[int, int, int, torch.device]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a nowcast of rain, with far more memory than it needs.")
    parser.add_argument("--epochs", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--sequences", type=int, default=384, help="in an epoch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: cuda, or cpu)")
    args = parser.parse_args()
    device = choose_device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return args.epochs, args.sequences, args.seed, device


if __name__ == "__main__":
    with plain_errors():
        main(*prepare())
