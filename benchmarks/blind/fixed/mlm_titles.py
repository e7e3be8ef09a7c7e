"""Masked-language-model pretraining of a small transformer on product titles."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, MASK, FIRST_WORD = 0, 1, 2
IGNORE = -100


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab-size", type=int, default=12000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--seq-len", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--titles", type=int, default=480)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--epochs", type=int, default=1000)
    p.add_argument("--seed", type=int, default=13)
    return p.parse_args()


def make_titles(args):
    """Zipf-distributed word ids with a bit of local structure."""
    ranks = torch.arange(1, args.vocab_size - FIRST_WORD + 1, dtype=torch.float)
    words = torch.multinomial(1.0 / ranks, args.titles * args.seq_len, replacement=True)
    words = words.view(args.titles, args.seq_len)
    words[:, 1::4] = (words[:, 0::4] * 7 + 3) % (args.vocab_size - FIRST_WORD)
    lengths = torch.randint(args.seq_len - 12, args.seq_len + 1, (args.titles, 1))
    titles = words + FIRST_WORD
    titles[torch.arange(args.seq_len).expand_as(titles) >= lengths] = PAD
    return titles


def mask_tokens(tokens, prob=0.15):
    chosen = (torch.rand(tokens.shape) < prob) & (tokens != PAD)
    labels = tokens.masked_fill(~chosen, IGNORE)
    return tokens.masked_fill(chosen, MASK), labels


class TitleEncoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.dim = args.dim
        self.tokens = nn.Embedding(args.vocab_size, args.dim, padding_idx=PAD)
        self.positions = nn.Parameter(torch.randn(args.seq_len, args.dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            args.dim, args.heads, 4 * args.dim, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(args.dim)
        self.head = nn.Linear(args.dim, args.vocab_size)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) * math.sqrt(self.dim) + self.positions
        x = self.encoder(x, src_key_padding_mask=tokens == PAD)
        hidden = self.norm(x).flatten(0, 1)
        labels = labels.flatten()
        masked = labels != IGNORE
        logits = self.head(hidden[masked])
        return nn.functional.cross_entropy(logits, labels[masked])


def warmup(step, total=200):
    return min(1.0, (step + 1) / total)


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    titles = make_titles(args)
    loader = DataLoader(TensorDataset(titles), batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = TitleEncoder(args)
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=args.lr
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup)

    for epoch in range(args.epochs):
        model.train()
        losses = []
        for i, (tokens,) in enumerate(loader):
            inputs, labels = mask_tokens(tokens)
            loss = model(inputs, labels)
            (loss / args.accumulate).backward()
            losses.append(loss.item())
            if (i + 1) % args.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch} mlm loss {mean:.4f} ppl {math.exp(min(mean, 20)):.1f}", flush=True)


if __name__ == "__main__":
    main()
