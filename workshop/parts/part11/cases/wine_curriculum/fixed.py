"""Scores wines from their spectra. Self-paced: each round trains on the samples that are easiest by now."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    def __init__(self, wines, bands=600):
        generator = torch.Generator().manual_seed(9)
        wavelengths = torch.linspace(0, 1, bands)
        self.place = torch.rand(wines, 5, generator=generator)
        height = torch.rand(wines, 5, generator=generator)
        peaks = torch.exp(-(((wavelengths - self.place[..., None]) / 0.04) ** 2)) * height[..., None]
        self.spectra = peaks.sum(1) + 0.02 * torch.randn(wines, bands, generator=generator)
        self.score = (self.place * height).sum(1) + 0.1 * torch.randn(wines, generator=generator)

    def __len__(self):
        return len(self.score)

    def __getitem__(self, i):
        scatter = 1 + 0.05 * torch.randn(())
        baseline = 0.02 * torch.randn(2)
        ramp = torch.linspace(0, 1, self.spectra.shape[1])
        return i, scatter * self.spectra[i] + baseline[0] + baseline[1] * ramp, self.score[i]


class SpectralNet(nn.Sequential):
    def __init__(self, c=24):
        super().__init__(
            nn.Unflatten(1, (1, -1)),
            nn.Conv1d(1, c, 11, stride=2, padding=5),
            nn.ELU(),
            nn.Conv1d(c, c, 11, stride=4, padding=5),
            nn.ELU(),
            nn.Conv1d(c, 2 * c, 11, stride=4, padding=5),
            nn.ELU(),
            nn.Flatten(),
            nn.Linear(2 * c * 19, 1),
            nn.Flatten(0),
        )


def main():
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--wines", type=int, default=1500)
    cli.add_argument("--rounds", type=int, default=20000)
    cli.add_argument("--per-round", type=int, default=160)
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--lr", type=float, default=1e-3)
    cli.add_argument("--workers", type=int, default=2)
    args = cli.parse_args()

    wines = Spectra(args.wines)
    difficulty = torch.rand(args.wines)
    net = SpectralNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    easy = list(range(args.per_round))
    loader = DataLoader(wines, args.batch, sampler=easy, num_workers=args.workers, persistent_workers=True)
    for round_ in range(args.rounds):
        chance = torch.exp(-difficulty / difficulty.mean())
        easy[:] = torch.multinomial(chance, args.per_round).tolist()
        for index, spectrum, score in loader:
            predicted = net(spectrum)
            optimizer.zero_grad()
            nn.functional.mse_loss(predicted, score).backward()
            optimizer.step()
            error = (predicted.detach() - score) ** 2
            difficulty[index] = 0.7 * difficulty[index] + 0.3 * error
        if round_ % 10 == 0:
            print(f"round {round_}: error {difficulty.mean():.4f}")


if __name__ == "__main__":
    main()
