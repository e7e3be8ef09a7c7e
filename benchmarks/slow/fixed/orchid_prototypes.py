"""Few-shot orchid recognition: a projection of frozen image features, trained against moving class prototypes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

SPECIES = 40
FEATURES = 512
EMBED = 64


class FeatureBank:
    """Features of a frozen backbone, kept in memory; hands out balanced batches."""

    def __init__(self, per_species=60, seed=0):
        gen = torch.Generator().manual_seed(seed)
        centres = torch.randn(SPECIES, 1, FEATURES, generator=gen)
        self.features = centres + 2.5 * torch.randn(SPECIES, per_species, FEATURES, generator=gen)
        self.per_species = per_species
        self.gen = gen

    def episode(self, shots):
        picks = torch.randint(0, self.per_species, (SPECIES, shots), generator=self.gen)
        x = self.features[torch.arange(SPECIES)[:, None], picks]
        return x.flatten(0, 1), torch.arange(SPECIES).repeat_interleave(shots)


class PrototypeTrainer:
    def __init__(self, momentum=0.95, shots=6, temperature=0.1):
        self.bank = FeatureBank()
        self.project = nn.Linear(FEATURES, EMBED)
        self.prototypes = F.normalize(torch.randn(SPECIES, EMBED), dim=1)
        self.momentum, self.shots, self.temperature = momentum, shots, temperature
        self.optimizer = torch.optim.SGD(self.project.parameters(), lr=0.05, momentum=0.9)

    def step(self):
        x, y = self.bank.episode(self.shots)
        z = F.normalize(self.project(x), dim=1)
        means = z.view(SPECIES, self.shots, EMBED).mean(dim=1)
        self.prototypes = self.momentum * self.prototypes + (1 - self.momentum) * means.detach()
        logits = z @ F.normalize(self.prototypes, dim=1).t() / self.temperature
        loss = F.cross_entropy(logits, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), (logits.argmax(1) == y).float().mean().item()

    def fit(self, steps):
        for i in range(1, steps + 1):
            loss, accuracy = self.step()
            if i % 50 == 0:
                print(f"episode {i}: loss {loss:.3f}, accuracy {accuracy:.1%}")


if __name__ == "__main__":
    torch.manual_seed(1)
    PrototypeTrainer().fit(1_000_000)
