"""Tag insect sounds on raw waveforms; a checkpoint now and then lets a broken run go on."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

SPECIES = 16


class Meadow(IterableDataset):
    """Endless batches of half a second at 8 kHz, cut from a bank of chirps made once."""

    def __init__(self, batch, bank=600, length=4000):
        t = torch.arange(length) / 8000
        self.species = torch.randint(0, SPECIES, (bank,))
        pitch = 600 + 180 * self.species[:, None] + 40 * torch.randn(bank, 1)
        pulse = (torch.sin(2 * torch.pi * t * (8 + self.species[:, None] % 5)) > 0).float()
        self.bank = torch.sin(2 * torch.pi * pitch * t) * pulse + 0.3 * torch.randn(bank, length)
        self.batch = batch

    def __iter__(self):
        while True:
            pick = torch.randint(0, len(self.bank), (self.batch,))
            yield self.bank[pick].unsqueeze(1), self.species[pick]


class WaveNetlet(nn.Module):
    def __init__(self, c=40):
        super().__init__()
        self.front = nn.Conv1d(1, c, 64, stride=8)
        self.body = nn.Sequential(
            nn.ReLU(), nn.Conv1d(c, 2 * c, 5, stride=2), nn.ReLU(), nn.Conv1d(2 * c, 2 * c, 5, stride=2), nn.ReLU()
        )
        self.out = nn.Linear(2 * c, SPECIES)

    def forward(self, wave):
        return self.out(self.body(self.front(wave)).mean(dim=2))


def train():
    folder = Path(tempfile.mkdtemp(prefix="insects_"))
    torch.manual_seed(23)
    model = WaveNetlet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    hits = 0.0
    for step, (wave, species) in enumerate(DataLoader(Meadow(24), batch_size=None), start=1):
        scores = model(wave)
        loss = nn.functional.cross_entropy(scores, species)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = 0.99 * hits + 0.01 * (scores.argmax(1) == species).float().mean().item()
        if step % 500 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, folder / "last.pt")
            print(f"step {step}: loss {loss.item():.3f}, hit rate {hits:.2f}")


if __name__ == "__main__":
    train()
