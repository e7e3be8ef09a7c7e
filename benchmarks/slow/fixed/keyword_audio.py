"""Keyword spotting: wav files, log-mel frames, and a small conv net over time."""

import argparse
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

WORDS = ["yes", "no", "up", "down", "left", "right", "stop", "go"]
RATE, LENGTH, WIDTH, HOP, MELS = 16000, 40000, 512, 128, 40


def record(folder, per_word, rng):
    t = np.arange(LENGTH) / RATE
    for w, word in enumerate(WORDS):
        for take in range(per_word):
            sound = sum(np.sin(2 * np.pi * f * (t + 0.02 * np.sin(9 * t))) for f in (200 + 60 * w, 700 + 210 * w))
            sound = sound * np.exp(-(((t - rng.uniform(0.6, 1.8)) / 0.3) ** 2)) + rng.normal(0, 0.2, LENGTH)
            with wave.open(str(folder / f"{word}_{take}.wav"), "wb") as out:
                out.setnchannels(1)
                out.setsampwidth(2)
                out.setframerate(RATE)
                out.writeframes((sound * 8000).clip(-32768, 32767).astype("<i2").tobytes())


def mel_bank():
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), MELS + 2)
    centre = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.fft.rfftfreq(WIDTH, 1 / RATE)
    up = (hertz - centre[:-2, None]) / (centre[1:-1] - centre[:-2])[:, None]
    down = (centre[2:, None] - hertz) / (centre[2:] - centre[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


class Keywords(Dataset):
    def __init__(self, folder, speed=(0.9, 1.1)):
        self.takes = sorted(folder.glob("*.wav"))
        self.bank, self.window, self.speed = mel_bank(), np.hanning(WIDTH).astype(np.float32), speed

    def __len__(self):
        return len(self.takes)

    def __getitem__(self, i):
        path = self.takes[i]
        with wave.open(str(path), "rb") as f:
            sound = np.frombuffer(f.readframes(LENGTH), "<i2").astype(np.float32) / 32768
        rng = np.random.default_rng()
        sound = np.interp(np.arange(LENGTH) * rng.uniform(*self.speed), np.arange(LENGTH), sound).astype(np.float32)
        sound += rng.normal(0, rng.uniform(0, 0.02), LENGTH).astype(np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(sound, WIDTH)[::HOP] * self.window
        power = np.abs(np.fft.rfft(frames)) ** 2
        mels = np.log(np.einsum("mf,tf->mt", self.bank, power) + 1e-6)
        mels = (mels - mels.mean()) / (mels.std() + 1e-5)
        return torch.from_numpy(mels.astype(np.float32)), WORDS.index(path.name.split("_")[0])


def conv(cin, cout, stride):
    return [nn.Conv1d(cin, cout, 5, stride=stride, padding=2), nn.BatchNorm1d(cout), nn.ReLU()]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=20)
    ap.add_argument("--epochs", type=int, default=2000)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="keywords-"))
    record(folder, per_word=30, rng=np.random.default_rng(8))
    loader = DataLoader(
        Keywords(folder),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )
    model = nn.Sequential(
        *conv(MELS, 24, 4),
        *conv(24, 48, 4),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(48, len(WORDS)),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        correct = 0
        for mels, word in loader:
            scores = model(mels)
            loss = nn.functional.cross_entropy(scores, word)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (scores.argmax(-1) == word).sum().item()
        if epoch % 5 == 0:
            print(f"epoch {epoch:4d} accuracy {correct / len(loader) / args.batch_size:.2%}")


if __name__ == "__main__":
    main()
