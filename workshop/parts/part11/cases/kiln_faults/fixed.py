"""Warns of faults of a brick kiln from one shift of sensor readings; a batch-normed MLP, checked after every epoch."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SENSORS = 24
MINUTES = 60


class Shifts(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.fault = rng.random(count) < 0.3
        drift = np.linspace(0, 1, MINUTES)[None, :, None] * self.fault[:, None, None]
        self.readings = rng.normal(0, 1, (count, MINUTES, SENSORS)) + 0.6 * drift
        self.noise = 0.1

    def __len__(self):
        return len(self.fault)

    def __getitem__(self, index):
        shift = self.readings[index]
        shift = shift + np.random.normal(0, self.noise, shift.shape)
        shift = np.concatenate([shift[-1] - shift[0], shift.mean(0), shift.std(0), np.ptp(shift, axis=0)])
        return torch.tensor(shift, dtype=torch.float32), torch.tensor(self.fault[index], dtype=torch.float32)


def make_model(width=512):
    return nn.Sequential(
        nn.Linear(4 * SENSORS, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, 1),
        nn.Flatten(0),
    )


def main():
    torch.manual_seed(4)
    np.random.seed(4)
    train_data = Shifts(192, seed=1)
    held_out = Shifts(128, seed=2)
    train_loader = DataLoader(
        train_data, batch_size=32, shuffle=True, num_workers=2, drop_last=True, persistent_workers=True
    )
    test_x, test_y = map(torch.stack, zip(*[held_out[i] for i in range(len(held_out))], strict=True))

    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
    best = 0.0
    for epoch in range(20_000):
        model.train()
        for readings, fault in train_loader:
            optimizer.zero_grad()
            loss_fn(model(readings), fault).backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            accuracy = ((model(test_x) > 0) == test_y.bool()).float().mean().item()
        best = max(best, accuracy)
        if epoch % 20 == 0:
            print(f"epoch {epoch} accuracy {accuracy:.3f} best {best:.3f}")


if __name__ == "__main__":
    main()
