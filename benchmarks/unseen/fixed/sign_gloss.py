"""Recognises single signs of a sign language from the joints of a body tracker."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

JOINTS, SIGNS = 67, 40


class Clips(Dataset):
    """Clips of unequal length, (frames, 2 x joints), kept in memory."""

    def __init__(self, count=1200):
        rng = np.random.default_rng(8)
        prototypes = rng.standard_normal((SIGNS, 3, 2 * JOINTS))
        self.clips, self.labels = [], rng.integers(0, SIGNS, count)
        for label in self.labels:
            time = np.linspace(0, 2 * np.pi, rng.integers(60, 160))
            waves = np.stack([np.sin(time), np.cos(time), np.sin(2 * time)], axis=1)
            clip = waves @ prototypes[label] + 0.5 * rng.standard_normal((len(time), 2 * JOINTS))
            self.clips.append(clip.astype(np.float32))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        clip = self.clips[index]
        return clip - clip[:1], int(self.labels[index])


class PadToLongest:
    """Brings the clips of a batch to one length; tells the length of each."""

    def __init__(self, value=0.0):
        self.value = value

    def __call__(self, samples):
        clips, labels = zip(*samples, strict=True)
        lengths = torch.tensor([len(clip) for clip in clips])
        frames = [torch.from_numpy(clip) for clip in clips]
        frames = nn.utils.rnn.pad_sequence(frames, batch_first=True, padding_value=self.value)
        return frames, lengths, torch.tensor(labels)


class GlossNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.reduce = nn.Linear(2 * JOINTS, width)
        self.conv1 = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(width, 2 * width, 5, stride=2, padding=2)
        self.head = nn.Linear(2 * width, SIGNS)

    def forward(self, frames, lengths):
        mask = torch.arange(frames.shape[1]) < lengths[:, None]
        x = (self.reduce(frames) * mask.unsqueeze(-1)).transpose(1, 2)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.head(x.sum(dim=2) / (lengths[:, None] / 4))


class Trainer:
    def __init__(self, model, loader, lr=1e-3):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.99)

    def step(self, frames, lengths, labels):
        self.optimizer.zero_grad()
        logits = self.model(frames, lengths)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        loss.backward()
        self.optimizer.step()
        return loss.item(), (logits.argmax(dim=1) == labels).float().mean().item()

    def fit(self, epochs):
        for epoch in range(epochs):
            results = np.array([self.step(*batch) for batch in self.loader])
            self.scheduler.step()
            loss, accuracy = results.mean(axis=0)
            print(f"epoch {epoch:3d} loss {loss:.3f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Clips(), batch_size=48, shuffle=True, drop_last=True, collate_fn=PadToLongest())
    Trainer(GlossNet(), loader).fit(epochs=1000)
