"""Forecast crop yields from weekly weather and soil, with a look at held-out farms now and then."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Farms:
    def __init__(self, n, seed, weeks=40):
        g = torch.Generator().manual_seed(seed)
        season = torch.sin(torch.linspace(0, 3.1416, weeks))
        rain = torch.rand(n, weeks, generator=g) * (1 + torch.rand(n, 1, generator=g))
        heat = season + 0.3 * torch.randn(n, weeks, generator=g)
        sun = season * torch.rand(n, weeks, generator=g)
        self.weather = torch.stack([rain, heat, sun, rain * heat], dim=1)
        self.soil = torch.randn(n, 10, generator=g)
        growth = (rain * heat - 0.5 * (heat > 1.3) * heat).mean(1) + 0.2 * self.soil[:, 0]
        self.harvest = (growth * 3 + 0.1 * torch.randn(n, generator=g)).unsqueeze(1)

    def __len__(self):
        return len(self.harvest)

    def take(self, rows):
        return self.weather[rows], self.soil[rows], self.harvest[rows]


class YieldNet(nn.Module):
    def __init__(self, width=72):
        super().__init__()
        self.c1 = nn.Conv1d(4, width, 5, padding=2)
        self.c2 = nn.Conv1d(width, width, 5, padding=2)
        self.c3 = nn.Conv1d(width, width, 5, padding=2)
        self.soil = nn.Linear(10, width)
        self.head = nn.Sequential(nn.Linear(3 * width, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, weather, soil):
        h = F.relu(self.c1(weather))
        h = h + F.relu(self.c2(h))
        h = h + F.relu(self.c3(h))
        return self.head(torch.cat([h.mean(2), h.amax(2), self.soil(soil)], dim=1))


@torch.no_grad()
def held_out_error(model, farms):
    model.eval()
    weather, soil, harvest = farms.take(slice(None))
    error = (model(weather, soil) - harvest).abs().mean().item()
    model.train()
    return error


def main():
    torch.manual_seed(0)
    train, held_out = Farms(12_000, seed=1), Farms(300, seed=2)
    model = YieldNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    for epoch in range(5000):
        for rows in torch.randperm(len(train)).split(128):
            weather, soil, harvest = train.take(rows)
            loss = F.huber_loss(model(weather, soil), harvest)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 200 == 0:
                print(f"epoch {epoch} step {step}: held-out error {held_out_error(model, held_out):.3f} t/ha")


if __name__ == "__main__":
    main()
