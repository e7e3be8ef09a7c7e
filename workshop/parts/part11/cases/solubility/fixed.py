"""Predicts the solubility of molecules from their SMILES strings with convolutions of three widths."""

import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

ATOMS = ["C", "C", "C", "N", "O", "c", "c", "n", "S", "F", "Cl", "Br"]
GLUE = ["", "", "=", "(", ")", "1", "2", "#"]
ALPHABET = {ch: k for k, ch in enumerate(sorted(set("".join(ATOMS + GLUE))), start=1)}


def random_smiles(rng):
    return "".join(rng.choice(ATOMS) + rng.choice(GLUE) for _ in range(rng.randint(20, 70)))


def make_molecules(n, seed=5):
    rng = random.Random(seed)
    molecules = []
    for _ in range(n):
        smiles = random_smiles(rng)
        log_s = 0.4 * (smiles.count("O") + smiles.count("N")) - 0.15 * smiles.lower().count("c") + rng.gauss(0, 0.3)
        molecules.append(([ALPHABET[ch] for ch in smiles], log_s))
    return molecules


def collate(batch):
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(codes) for codes, _ in batch], batch_first=True)
    target = torch.tensor([log_s for _, log_s in batch])
    return tokens, target


class SolubilityNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET) + 1, width, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(width, width, size, padding=size // 2) for size in (3, 5, 7)])
        self.regressor = nn.Sequential(nn.Linear(3 * width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        mask = (tokens > 0).unsqueeze(1)
        pooled = [(torch.relu(conv(x)) * mask).sum(2) / mask.sum(2) for conv in self.convs]
        return self.regressor(torch.cat(pooled, 1)).squeeze(-1)


def run_epoch(model, loader, optimizer):
    model.train()
    squared = 0.0
    for tokens, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(tokens), target)
        loss.backward()
        optimizer.step()
        squared += loss.item() * len(target)
    return (squared / len(loader.dataset)) ** 0.5


if __name__ == "__main__":
    torch.manual_seed(1)
    loader = DataLoader(make_molecules(8192), batch_size=64, shuffle=True, collate_fn=collate)
    model = SolubilityNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1, 1001):
        print(f"epoch {epoch:3d}  rmse {run_epoch(model, loader, optimizer):.3f}")
