"""Recipes, word by word: a small language model in bfloat16, with its own schedule and clipped gradients."""

import math

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = device.type == "cuda"
WORDS, WIDTH, LAYERS, LENGTH, BATCH = (8192, 512, 6, 512, 32) if ON_GPU else (256, 32, 2, 32, 4)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        queries, keys, values = self.joined(self.norm(x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.mix(x))


def train():
    text = torch.randint(WORDS, (200 * LENGTH * BATCH // 8,), device=device)
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Layer() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 + 0.5 * math.cos(step / 1e4))
    places = torch.arange(LENGTH + 1, device=device)
    for step in range(10_000_000):
        begins = torch.randint(len(text) - LENGTH, (BATCH, 1), device=device)
        words = text[begins + places]
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train()
