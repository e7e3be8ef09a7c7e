"""A sentence encoder that learns to tell genres apart; texts are padded to the longest of their batch."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
WORDS, WIDTH, LAYERS, LENGTH, BATCH = (20_000, 256, 12, 64, 32) if ON_GPU else (500, 32, 2, 16, 8)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries, self.keys, self.values, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def split(self, x):
        return x.unflatten(-1, (8, -1)).transpose(1, 2)

    def forward(self, x, is_word):
        h = self.norm(x)
        attended = None
        if not is_word.all():
            attended = is_word[:, None, None, :]
        h = nn.functional.scaled_dot_product_attention(
            self.split(self.queries(h)), self.split(self.keys(h)), self.split(self.values(h)), attn_mask=attended
        )
        x = x + self.out(h.transpose(1, 2).flatten(2))
        return x + self.feed(self.mix(x))


class Encoder(nn.Module):
    def __init__(self, genres):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, genres)

    def forward(self, words):
        is_word = words != 0
        x = self.words(words)
        for layer in self.layers:
            x = layer(x, is_word)
        weights = is_word[..., None].to(x.dtype)
        return self.head((x * weights).sum(1) / weights.sum(1))


def texts(count):
    words = torch.randint(1, WORDS, (count, LENGTH))
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (count, 1))
    return words.where(torch.arange(LENGTH) < lengths, 0).to(device), torch.randint(12, (count,)).to(device)


def train():
    words, genres = texts(60 * BATCH)
    model = Encoder(12).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(100_000):
        for rows in torch.randperm(len(words), device=device).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(words[rows]), genres[rows])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
