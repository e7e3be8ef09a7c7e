"""Text classifier whose sentence vectors feed a memory bank for a kNN monitor."""

from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
torch.set_num_threads(1)


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=2000, dim=96, classes=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, 48, dim))
        self.layer = nn.TransformerEncoderLayer(dim, 4, 192, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, tok):
        h = self.layer(self.emb(tok) + self.pos)
        cls = h[:, 0]
        return self.head(cls), cls


class MemoryBank:
    def __init__(self, batches=150):
        self.feats = deque(maxlen=batches)
        self.labels = deque(maxlen=batches)

    def add(self, feats, labels):
        self.feats.append(feats.detach())  # fault
        self.labels.append(labels)

    def knn_acc(self, feats, labels):
        bank = F.normalize(torch.cat(list(self.feats)), dim=1)
        lab = torch.cat(list(self.labels))
        sim = F.normalize(feats.detach(), dim=1) @ bank.t()
        return (lab[sim.argmax(1)] == labels).float().mean().item()


def make_text(n):
    y = torch.randint(0, 6, (n,))
    tok = torch.randint(0, 2000, (n, 48))
    tok[:, 1:12] = tok[:, 1:12] % 300 + 300 * y[:, None]
    tok[:, 0] = 1
    return tok, y


def main():
    tok, y = make_text(3000)
    model = SentenceEncoder()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    bank = MemoryBank()
    step = 0
    while step < 1000000:
        idx = torch.randint(0, len(tok), (48,))
        logits, cls = model(tok[idx])
        loss = F.cross_entropy(logits, y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < 3:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if step % 40 == 39:
            print(f"step {step} loss {loss.item():.4f} knn {bank.knn_acc(cls, y[idx]):.3f}", flush=True)
        bank.add(cls, y[idx])
        step += 1


if __name__ == "__main__":
    main()
