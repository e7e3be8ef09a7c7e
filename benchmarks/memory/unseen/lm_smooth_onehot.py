"""Character LM (GRU) trained with label smoothing."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 8000


def corpus(n, seed):
    g = torch.Generator().manual_seed(seed)
    probs = 1.0 / torch.arange(1, VOCAB + 1).float()
    toks = torch.multinomial(probs, n, replacement=True, generator=g)
    toks[1::2] = (toks[0::2] * 7 + 3) % VOCAB
    return toks


def batches(toks, bs, t):
    n = (len(toks) - 1) // (bs * t) * bs * t
    x = toks[:n].view(bs, -1)
    y = toks[1 : n + 1].view(bs, -1)
    for i in range(0, x.shape[1], t):
        yield x[:, i : i + t], y[:, i : i + t]


class CharLM(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, h)
        self.rnn = nn.GRU(h, h, batch_first=True)
        self.out = nn.Linear(h, VOCAB)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


class SmoothedLoss(nn.Module):
    def __init__(self, eps=0.1):
        super().__init__()
        self.eps = eps

    def forward(self, logits, y):
        logp = F.log_softmax(logits, dim=-1)
        soft = F.one_hot(y, VOCAB).float() * (1 - self.eps) + self.eps / VOCAB  # fault
        return -(soft * logp).sum(-1).mean()


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=24)
    p.add_argument("--seq", type=int, default=48)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--epochs", type=int, default=1000)
    a = p.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    toks = corpus(120000, 7)
    model = CharLM()
    crit = SmoothedLoss()
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    step = 0
    for ep in range(a.epochs):
        for x, y in batches(toks, a.bs, a.seq):
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
