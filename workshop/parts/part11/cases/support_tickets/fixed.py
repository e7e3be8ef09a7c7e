"""Routes support tickets to a team: a small text classifier on word pieces."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

TEAMS = ["billing", "network", "accounts", "hardware", "other"]
SYLLABLES = "ba ke lo mi nu ra se ti vo xu pra ste kli dro fen gam".split()


@dataclass
class Config:
    tickets: int = 3000
    batch: int = 24
    width: int = 64
    lr: float = 1e-3
    epochs: int = 300


class WordPieces:
    """Greedy longest-match pieces, with a vocabulary of one piece a line."""

    def __init__(self, path):
        self.ids = {}
        for line in Path(path).read_text().splitlines():
            self.ids.setdefault(line.strip(), len(self.ids))
        self.longest = max(map(len, self.ids))

    def encode(self, text):
        pieces = []
        for word in text.split():
            while word:
                for size in range(min(len(word), self.longest), 0, -1):
                    if word[:size] in self.ids or size == 1:
                        pieces.append(self.ids.get(word[:size], 0))
                        word = word[size:]
                        break
        return pieces


class Tickets(Dataset):
    def __init__(self, config, vocabulary):
        rng = random.Random(1)
        self.tokenizer = WordPieces(vocabulary)
        self.texts, self.teams = [], []
        for _ in range(config.tickets):
            team = rng.randrange(len(TEAMS))
            favourites = SYLLABLES[team * 3 : team * 3 + 5]
            words = [
                "".join(rng.choices(favourites + SYLLABLES, k=rng.randint(1, 3))) for _ in range(rng.randint(15, 40))
            ]
            self.texts.append(" ".join(words))
            self.teams.append(team)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        pieces = self.tokenizer.encode(self.texts[i].lower())
        return torch.tensor(pieces), self.teams[i]


def collate(batch):
    pieces, teams = zip(*batch, strict=True)
    return pad_sequence(pieces, batch_first=True), torch.tensor(teams)


class Router(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(TEAMS))

    def forward(self, pieces):
        padding = pieces == 0
        x = self.encoder(self.embed(pieces), src_key_padding_mask=padding)
        x = x.masked_fill(padding[..., None], 0).sum(1) / (~padding).sum(1, keepdim=True)
        return self.head(x)


def main():
    config = Config()
    vocabulary = Path(tempfile.mkdtemp(prefix="tickets-")) / "pieces.txt"
    pieces = [a + b + c for a in ["", *SYLLABLES] for b in ["", *SYLLABLES] for c in SYLLABLES]
    vocabulary.write_text("\n".join(["<pad>", *dict.fromkeys(pieces)]))
    loader = DataLoader(Tickets(config, vocabulary), config.batch, shuffle=True, collate_fn=collate)
    model = Router(len(pieces) + 1, config.width)
    optimizer = torch.optim.AdamW(model.parameters(), config.lr)
    for epoch in range(config.epochs):
        for step, (pieces, team) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(pieces), team)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 50 == 0:
                print(epoch, step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
