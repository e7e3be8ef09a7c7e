"""Hand gestures from a wrist sensor: a temporal conv net on six channels of acceleration and turn rate."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CHANNELS, LENGTH, GESTURES = 6, 400, 8


class WristSensor(Dataset):
    def __init__(self, n=2000):
        rng = np.random.default_rng(42)
        self.y = rng.integers(0, GESTURES, n)
        t = np.linspace(0, 2 * np.pi, LENGTH, dtype=np.float32)
        waves = np.stack([np.sin((c + 1) * t + c) for c in range(CHANNELS)])
        gain = rng.normal(size=(GESTURES, CHANNELS, 1))
        self.x = (gain[self.y] * waves + rng.normal(0, 1.0, (n, CHANNELS, LENGTH))).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        shift = np.random.randint(-20, 20)
        return {"signal": np.roll(self.x[i], shift, axis=1), "gesture": int(self.y[i])}


def to_batch(samples):
    signal = torch.from_numpy(np.stack([s["signal"] for s in samples]))
    gesture = torch.tensor([s["gesture"] for s in samples])
    return signal, gesture


class PrintProgress:
    def __init__(self, every):
        self.every = every

    def on_step(self, trainer, loss):
        if trainer.steps % self.every == 0:
            print(f"[{trainer.steps}] loss={loss:.3f}")


class KeepAverage:
    """An exponential average of the weights, for evaluation."""

    def __init__(self, model):
        self.average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
        )

    def on_step(self, trainer, loss):
        self.average.update_parameters(trainer.model)


class Trainer:
    def __init__(self, model, loader, callbacks):
        self.model, self.loader, self.callbacks = model, loader, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        self.steps = 0

    def fit(self, epochs):
        for _ in range(epochs):
            for signal, gesture in self.loader:
                loss = nn.functional.cross_entropy(self.model(signal), gesture)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.steps += 1
                for callback in self.callbacks:
                    callback.on_step(self, loss.item())


def main():
    model = nn.Sequential(
        nn.Conv1d(CHANNELS, 32, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.Conv1d(32, 48, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv1d(48, 64, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(64, GESTURES),
    )
    loader = DataLoader(WristSensor(), batch_size=50, shuffle=True, collate_fn=to_batch)
    Trainer(model, loader, [PrintProgress(40), KeepAverage(model)]).fit(epochs=500)


if __name__ == "__main__":
    main()
