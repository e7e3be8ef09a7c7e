"""Sleep stages from EEG: each 15 s epoch becomes a stack of whitened covariances, which a small CNN reads."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STAGES = ("wake", "rem", "n1", "n2", "n3")
ELECTRODES = 48
SLICES = 3


class Nights(Dataset):
    """Epochs of 48 channels at 100 Hz, mixed from a few rhythms of the stage."""

    def __init__(self, epochs=240, seed=0):
        rng = np.random.default_rng(seed)
        self.mixing = rng.normal(0, 1, (len(STAGES), ELECTRODES, 8)).astype(np.float32)
        self.stage = rng.integers(0, len(STAGES), epochs)
        self.seed = seed

    def __len__(self):
        return 40 * len(self.stage)

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        stage = self.stage[index % len(self.stage)]
        rhythms = rng.standard_normal((8, 1500), dtype=np.float32)
        signal = self.mixing[stage] @ rhythms + rng.standard_normal((ELECTRODES, 1500), dtype=np.float32)
        parts = []
        for part in np.split(signal, SLICES, axis=1):
            covariance = np.cov(part) + 0.1 * np.eye(ELECTRODES)
            values, vectors = np.linalg.eigh(covariance)
            parts.append((vectors * np.log(values)) @ vectors.T)
        return torch.from_numpy(np.stack(parts)).float(), int(stage)


class StageNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(SLICES, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(64 * 16, len(STAGES)),
        )

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Nights(), batch_size=12, shuffle=True, num_workers=1, persistent_workers=True)
    model = StageNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for night in range(100):
        for step, (matrices, stage) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(matrices), stage)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"pass {night} step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
