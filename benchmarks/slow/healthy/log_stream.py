"""Next-token prediction on an endless stream of server log tokens, with a transformer encoder and a causal mask."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


@dataclass
class Options:
    vocabulary: int = 512
    length: int = 128
    batch: int = 12
    width: int = 128
    heads: int = 4
    layers: int = 3
    lr: float = 5e-4
    steps: int = 50_000


class LogStream(IterableDataset):
    """A Markov chain over message tokens; each worker has its own."""

    def __init__(self, options):
        self.options = options
        g = torch.Generator().manual_seed(0)
        self.following = torch.randint(options.vocabulary, (options.vocabulary, 4), generator=g)

    def __iter__(self):
        info = get_worker_info()
        g = torch.Generator().manual_seed(info.id if info else 0)
        many = 64
        while True:
            token = torch.randint(self.options.vocabulary, (many,), generator=g)
            lines = [token]
            for choice in torch.randint(4, (self.options.length, many), generator=g):
                token = self.following[token, choice]
                lines.append(token)
            yield from torch.stack(lines, 1)


class LogModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.token, self.place = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.length, o.width)
        layer = nn.TransformerEncoderLayer(
            o.width, o.heads, 4 * o.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, o.layers, enable_nested_tensor=False)
        self.out = nn.Linear(o.width, o.vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(o.length))

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight
        return self.out(self.layers(x, mask=self.mask, is_causal=True))


def train(options):
    torch.manual_seed(0)
    model = LogModel(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, fused=True)
    stream = DataLoader(LogStream(options), batch_size=options.batch, num_workers=1)
    for step, lines in zip(range(options.steps), stream, strict=False):
        logits = model(lines[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), lines[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step} perplexity {loss.exp().item():.1f}")


if __name__ == "__main__":
    train(Options())
