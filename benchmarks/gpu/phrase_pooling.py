"""Phrases of speech, each pooled over its own length, are matched with their captions."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
FRAMES, BANDS, WIDTH, BATCH = (160, 80, 256, 64) if ON_GPU else (40, 16, 32, 8)


class Phrases(nn.Module):
    def __init__(self):
        super().__init__()
        self.frames = nn.Sequential(
            nn.Conv1d(BANDS, WIDTH, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2),
        )
        self.out = nn.Linear(WIDTH, 128)

    def forward(self, spectrum, lengths):
        x = self.frames(spectrum)
        pooled = torch.stack([x[i, :, : int(lengths[i])].mean(1) for i in range(len(x))])
        return nn.functional.normalize(self.out(pooled), dim=1)


def train():
    spectra = torch.randn(40 * BATCH, BANDS, FRAMES, device=device)
    lengths = torch.randint(FRAMES // 4, FRAMES + 1, (len(spectra),), device=device)
    captions = nn.functional.normalize(torch.randn(len(spectra), 128, device=device), dim=1)
    model = Phrases().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(100_000):
        for rows in torch.randperm(len(spectra), device=device).split(BATCH):
            likeness = model(spectra[rows], lengths[rows]) @ captions[rows].T / 0.07
            loss = nn.functional.cross_entropy(likeness, torch.arange(len(rows), device=device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
