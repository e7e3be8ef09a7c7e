"""Rulings of a court by their length, from a few words to long ones: which articles do they cite?"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
WORDS, WIDTH, LAYERS, LONGEST, BATCH, RULINGS = (16_000, 512, 4, 512, 32, 1280) if ON_GPU else (300, 32, 2, 64, 8, 160)


class Rulings(Dataset):
    def __init__(self):
        dice = torch.Generator().manual_seed(0)
        share = torch.rand(RULINGS, generator=dice) ** 3
        lengths = (8 + share * (LONGEST - 8) / 4).long().tolist()
        self.texts = [torch.randint(1, WORDS, (length,), generator=dice) for length in lengths]
        self.cited = torch.randint(30, (RULINGS,), generator=dice)

    def __len__(self):
        return RULINGS

    def __getitem__(self, index):
        return self.texts[index], self.cited[index]


def collate(rulings):
    texts, cited = zip(*rulings, strict=True)
    words = torch.zeros(len(texts), LONGEST, dtype=torch.long)
    for row, text in zip(words, texts, strict=True):
        row[: len(text)] = text
    return words, torch.stack(cited)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 30)

    def forward(self, words):
        is_empty = words == 0
        x = self.layers(self.words(words), src_key_padding_mask=is_empty)
        return self.head(x.masked_fill(is_empty[..., None], 0).sum(1) / (~is_empty).sum(1, keepdim=True))


def train():
    loader = DataLoader(
        Rulings(), BATCH, True, num_workers=2, collate_fn=collate, pin_memory=ON_GPU, persistent_workers=True
    )
    model = Reader().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(100_000):
        for words, cited in loader:
            words, cited = words.to(device, non_blocking=True), cited.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(words), cited)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
