"""Triples of amino acids, some of them hidden, are guessed from the others."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
TRIPLES, WIDTH, LAYERS, LENGTH, BATCH = (24_000, 384, 3, 256, 32) if ON_GPU else (2000, 32, 1, 32, 8)


class Guesser(nn.Module):
    def __init__(self):
        super().__init__()
        self.triples = nn.Embedding(TRIPLES, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, TRIPLES)

    def forward(self, triples):
        return self.layers(self.triples(triples) + self.places)


def train():
    proteins = torch.randint(1, TRIPLES, (40 * BATCH, LENGTH), device=device)
    hidden = 32 if ON_GPU else 4
    model = Guesser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(100_000):
        for rows in torch.randperm(len(proteins), device=device).split(BATCH):
            triples = proteins[rows]
            places = torch.rand(triples.shape, device=device).topk(hidden).indices
            wanted = torch.full_like(triples, -100).scatter(1, places, triples.gather(1, places))
            seen = model(triples.scatter(1, places, 0))
            loss = nn.functional.cross_entropy(model.head(seen).flatten(0, 1), wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
