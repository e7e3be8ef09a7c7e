"""Keyword spotting on one-second clips with room-reverberation and noise augmentation."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 16000
KEYWORDS = 12
CLIPS = 320
BATCH = 16
RIR_TAPS = 8000


def synth_clips(rng):
    """Each keyword is a fixed pair of chirps at a random offset."""
    t = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    starts = rng.uniform(200, 1500, (KEYWORDS, 2))
    slopes = rng.uniform(-800, 1200, (KEYWORDS, 2))
    labels = rng.integers(0, KEYWORDS, CLIPS)
    clips = np.zeros((CLIPS, SAMPLE_RATE), dtype=np.float32)
    for clip, k in zip(clips, labels):
        phase = 2 * np.pi * (starts[k][:, None] * t + 0.5 * slopes[k][:, None] * t**2)
        word = np.sin(phase).sum(0) * np.hanning(len(t))
        offset = rng.integers(0, SAMPLE_RATE - len(t))
        clip[offset : offset + len(t)] = 0.4 * word
    return torch.from_numpy(clips), torch.from_numpy(labels)


def synth_rooms(rng, count=24):
    decay = np.exp(-np.arange(RIR_TAPS)[None] / rng.uniform(200, 1200, (count, 1)))
    rooms = rng.normal(size=(count, RIR_TAPS)) * decay
    rooms[:, 0] = 4.0
    rooms /= np.linalg.norm(rooms, axis=1, keepdims=True)
    return torch.from_numpy(rooms.astype(np.float32))


def reverberate(wave, rir):
    """Convolve every clip of the batch with its own room response."""
    taps = rir.shape[-1]
    padded = F.pad(wave, (taps - 1, 0)).unsqueeze(0)
    out = F.conv1d(padded, rir.flip(-1).unsqueeze(1), groups=len(wave))
    return out.squeeze(0)


def augment(wave, rooms):
    wave = reverberate(wave, rooms[torch.randint(len(rooms), (len(wave),))])
    gain = torch.empty(len(wave), 1).uniform_(0.5, 1.5)
    noise = torch.randn_like(wave) * 0.02
    return wave * gain + noise


class LogSpectrogram(nn.Module):
    def __init__(self, n_fft=512, hop=160):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return (spec.abs().square() + 1e-6).log().unsqueeze(1)


class KeywordNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = LogSpectrogram()
        self.norm = nn.BatchNorm2d(1)
        self.conv = nn.Sequential(
            nn.Conv2d(1, 12, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.gru = nn.GRU(32 * 16, 64, batch_first=True)
        self.head = nn.Linear(64, KEYWORDS)

    def forward(self, wave):
        x = self.conv(self.norm(self.front(wave)))
        x, _ = self.gru(x.permute(0, 3, 1, 2).flatten(2))
        return self.head(x.mean(1))


if __name__ == "__main__":
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    clips, labels = synth_clips(rng)
    rooms = synth_rooms(rng)
    model = KeywordNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    for epoch in range(1000):
        model.train()
        hits, loss_sum = 0, 0.0
        for idx in torch.randperm(CLIPS).split(BATCH):
            wave = augment(clips[idx], rooms)
            logits = model(wave)
            loss = F.cross_entropy(logits, labels[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            loss_sum += loss.item() * len(idx)
            hits += (logits.argmax(1) == labels[idx]).sum().item()
        print(f"epoch {epoch:4d} | loss {loss_sum / CLIPS:.4f} | acc {hits / CLIPS:.3f}", flush=True)
