"""Word-level LSTM with truncated backpropagation and a carried state."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab, h):
        super().__init__()
        self.emb = nn.Embedding(vocab, h)
        self.rnn = nn.LSTM(h, h, num_layers=2, batch_first=True)
        self.out = nn.Linear(h, vocab)
        self.out.weight = self.emb.weight

    def forward(self, x, state):
        y, state = self.rnn(self.emb(x), state)
        return self.out(y), state


def markov(n, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    jump = torch.randint(0, vocab, (vocab, 4), generator=g)
    pick = torch.randint(0, 4, (n,), generator=g).tolist()
    table = jump.tolist()
    out, cur = [], 0
    for k in pick:
        cur = table[cur][k]
        out.append(cur)
    return torch.tensor(out, dtype=torch.int16)


def evaluate(model, stream, t=30):
    model.eval()
    total, count, state = 0.0, 0, None
    with torch.inference_mode():
        for i in range(0, stream.shape[1] - 1 - t, t):
            logits, state = model(stream[:, i : i + t].long(), state)
            tgt = stream[:, i + 1 : i + t + 1].long()
            total += nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten()).item()
            count += 1
    model.train()
    return math.exp(total / count)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    vocab, t = 800, 30
    train = markov(200000, vocab, 1).view(20, -1)
    val = markov(10000, vocab, 1).view(10, -1)
    model = Model(vocab, 96)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    step, history = 0, []
    for epoch in range(200):
        state = None
        for i in range(0, train.shape[1] - 1 - t, t):
            if state is not None:
                state = tuple(s.detach() for s in state)
            logits, state = model(train[:, i : i + t].long(), state)
            tgt = train[:, i + 1 : i + t + 1].long()
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            history.append(loss.item())
            if step < 3 or step % 50 == 0:
                print(f"step {step} loss {history[-1]:.5f}", flush=True)
            step += 1
        print(f"epoch {epoch} ppl {evaluate(model, val):.1f}", flush=True)


if __name__ == "__main__":
    main()
