"""Heart beats: twelve leads, short recordings, and epochs that are over soon."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
SAMPLES, WIDTH, BATCH, BEATS, WORKERS = (1000, 128, 64, 2048, 8) if ON_GPU else (100, 16, 16, 128, 2)


class Beats(Dataset):
    def __init__(self):
        dice = np.random.default_rng(0)
        self.beats = dice.normal(size=(BEATS, 12, SAMPLES + 50)).astype(np.float32)
        self.kinds = dice.integers(5, size=BEATS)

    def __len__(self):
        return BEATS

    def __getitem__(self, index):
        begin = np.random.randint(50)
        beat = self.beats[index, :, begin : begin + SAMPLES]
        return (beat - beat.mean(1, keepdims=True)) / beat.std(1, keepdims=True), self.kinds[index]


def train():
    loader = DataLoader(Beats(), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=ON_GPU)
    model = nn.Sequential(
        nn.Conv1d(12, WIDTH, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.Conv1d(WIDTH, WIDTH, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.Conv1d(WIDTH, WIDTH, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(WIDTH, 5),
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(100_000):
        for beats, kinds in loader:
            beats, kinds = beats.to(device, non_blocking=True), kinds.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(beats), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
