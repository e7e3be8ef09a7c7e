"""Short sounds of four kinds, whose noise and spectrum are made in front of the model; an average of it is kept."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Noise(nn.Module):
    def forward(self, sounds):
        return sounds + (0.05 + 0.1 * torch.rand(len(sounds), 1)) * torch.randn_like(sounds)


class Spectrum(nn.Module):
    def forward(self, sounds):
        found = []
        for sound in sounds:
            frames = [sound[first : first + 64] for first in range(0, len(sound) - 63, 16)]
            found.append(torch.stack([(torch.fft.rfft(frame).abs() + 0.1).log() for frame in frames], 1))
        return torch.stack(found)


def sounds():
    dice = torch.Generator().manual_seed(3)
    kinds = torch.randint(4, (160,), generator=dice)
    along = torch.arange(320.0)
    pitch = 0.1 + 0.2 * kinds + 0.02 * torch.randn(160, generator=dice)
    return (pitch[:, None] * along + along**2 * 5e-4).sin(), kinds


def main():
    loader = DataLoader(TensorDataset(*sounds()), 8, shuffle=True)
    front = nn.Sequential(Noise(), Spectrum())
    model = nn.Sequential(nn.Conv1d(33, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 15, 4))
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        for inputs, kinds in loader:
            spectra = front(inputs)
            loss = nn.functional.cross_entropy(model(spectra), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=False):
                    slow.lerp_(fast, 0.05)


if __name__ == "__main__":
    main()
