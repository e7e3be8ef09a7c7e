"""A denoising autoencoder of gene expression profiles of single cells."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

GENES = 1500
CELLS = 6000
REPORT = Path(tempfile.mkdtemp(prefix="genes_"))
HISTOGRAMS_EVERY = 400


def expression():
    rng = np.random.default_rng(17)
    programs = rng.gamma(0.3, 1.0, (20, GENES)).astype(np.float32)
    usage = rng.dirichlet(np.full(20, 0.2), CELLS).astype(np.float32)
    counts = rng.poisson(usage @ programs * 20)
    return torch.from_numpy(np.log1p(counts).astype(np.float32))


def draw_histograms(model, step):
    """One strip for each weight matrix: the distribution of weights and of their gradients."""
    weights = [(name, p) for name, p in model.named_parameters() if p.ndim > 1]
    page = Image.new("RGB", (820, 160 * len(weights)), "white")
    draw = ImageDraw.Draw(page)
    for row, (name, p) in enumerate(weights):
        draw.text((10, 160 * row + 4), f"{name}  step {step}", fill="black")
        for column, values in enumerate((p.detach().numpy(), p.grad.numpy())):
            edge = np.quantile(np.abs(values), 0.995)
            bars, _ = np.histogram(values, bins=400, range=(-edge, edge))
            top = max(bars.max(), 1)
            for k, bar in enumerate(bars):
                x, y = 10 + 405 * column + k, 160 * row + 150
                draw.line([(x, y), (x, y - 125 * bar / top)], fill="steelblue" if column == 0 else "darkorange")
    page.save(REPORT / "weights.png")


def main():
    torch.manual_seed(17)
    data = expression()
    model = nn.Sequential(
        nn.Linear(GENES, 256), nn.ReLU(), nn.Linear(256, 32), nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, GENES)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    step = 0
    for epoch in range(5000):
        total = 0.0
        for rows in torch.randperm(CELLS).split(250):
            clean = data[rows]
            noisy = clean * (torch.rand_like(clean) > 0.2)
            loss = ((model(noisy) - clean) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
            step += 1
            if step % HISTOGRAMS_EVERY == 0:
                draw_histograms(model, step)
        print(f"epoch {epoch}: {total / CELLS:.5f}")


if __name__ == "__main__":
    main()
