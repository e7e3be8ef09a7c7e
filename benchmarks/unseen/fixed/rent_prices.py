"""Neural additive model of the rent of a flat: one small network for each feature, summed."""

import torch
from torch import nn

torch.manual_seed(0)

FEATURES = 60
BATCH = 128


class AdditiveModel(nn.Module):
    def __init__(self, features, hidden=24):
        super().__init__()
        sizes = [(1, hidden), (hidden, hidden), (hidden, 1)]
        self.weights = nn.ParameterList((2 * torch.rand(features, a, b) - 1) / a**0.5 for a, b in sizes)
        self.biases = nn.ParameterList((2 * torch.rand(features, 1, b) - 1) / a**0.5 for a, b in sizes)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        h = torch.baddbmm(self.biases[0], x.T.unsqueeze(2), self.weights[0]).relu()
        h = torch.baddbmm(self.biases[1], h, self.weights[1]).relu()
        parts = torch.baddbmm(self.biases[2], h, self.weights[2]).squeeze(2).T
        return parts.sum(dim=1) + self.bias, parts


# Flats: most features do little, some bend the price up or down.
flats = torch.rand(20_000, FEATURES) * 2 - 1
strength = torch.randn(FEATURES) * (torch.rand(FEATURES) < 0.3)
rents = (torch.sin(3 * flats) * strength).sum(dim=1) + 0.1 * torch.randn(len(flats))
train_x, valid_x = flats[:18_000], flats[18_000:]
train_y, valid_y = rents[:18_000], rents[18_000:]

model = AdditiveModel(FEATURES)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-5)

for epoch in range(1000):
    order = torch.randperm(len(train_x))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        price, parts = model(train_x[rows])
        loss = nn.functional.mse_loss(price, train_y[rows]) + 1e-3 * parts.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    with torch.no_grad():
        error = (model(valid_x)[0] - valid_y).abs().mean()
    print(f"epoch {epoch}: train {loss.item():.4f}, validation error {error.item():.4f}")
