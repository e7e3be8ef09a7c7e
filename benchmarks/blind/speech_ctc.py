"""Phoneme recogniser: unidirectional GRU with CTC on filterbank features."""

import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CONFIG = dict(
    n_mels=40,
    n_phones=39,
    hidden=96,
    layers=2,
    batch_size=8,
    lr=1e-3,
    epochs=1000,
    max_frames=400,
    max_phones=60,
    n_utts=240,
)


class SyntheticPhones(Dataset):
    """Utterances made of noisy phone templates with a random duration each."""

    def __init__(self, cfg, seed=7):
        rng = np.random.default_rng(seed)
        templates = rng.normal(size=(cfg["n_phones"] + 1, cfg["n_mels"])).astype(np.float32)
        self.items = []
        for _ in range(cfg["n_utts"]):
            n = int(np.clip(rng.gamma(4.0, 4.0), 5, cfg["max_phones"]))
            phones = rng.integers(1, cfg["n_phones"] + 1, n)
            dur = rng.integers(4, 10, n)
            feats = np.repeat(templates[phones], dur, axis=0)
            feats = feats + 0.5 * rng.normal(size=feats.shape).astype(np.float32)
            feats = feats.astype(np.float32)[: cfg["max_frames"]]
            self.items.append((torch.from_numpy(feats), torch.from_numpy(phones)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class PadCollate:
    def __init__(self, cfg):
        self.max_frames = cfg["max_frames"]
        self.n_mels = cfg["n_mels"]

    def __call__(self, batch):
        feat_lens = torch.tensor([f.size(0) for f, _ in batch])
        phone_lens = torch.tensor([p.size(0) for _, p in batch])
        feats = torch.zeros(len(batch), self.max_frames, self.n_mels)
        for i, (f, _) in enumerate(batch):
            feats[i, : f.size(0)] = f
        phones = torch.cat([p for _, p in batch])
        return feats, feat_lens, phones, phone_lens


class AcousticModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(cfg["n_mels"], cfg["hidden"]), nn.ReLU())
        self.rnn = nn.GRU(cfg["hidden"], cfg["hidden"], cfg["layers"], batch_first=True)
        self.out = nn.Linear(cfg["hidden"], cfg["n_phones"] + 1)

    def forward(self, feats):
        h, _ = self.rnn(self.inp(feats))
        return self.out(h).log_softmax(-1)


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg = cfg
        self.loader = DataLoader(
            SyntheticPhones(cfg),
            batch_size=cfg["batch_size"],
            shuffle=True,
            collate_fn=PadCollate(cfg),
            drop_last=True,
        )
        self.model = AcousticModel(cfg)
        self.ctc = nn.CTCLoss(blank=0, zero_infinity=True)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg["lr"])

    def train_step(self, feats, feat_lens, phones, phone_lens):
        logp = self.model(feats)
        loss = self.ctc(logp.transpose(0, 1), phones, feat_lens, phone_lens)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.cfg["epochs"]):
            start = time.time()
            running, n = 0.0, 0
            for batch in self.loader:
                running += self.train_step(*batch)
                n += 1
            print(f"[{epoch:04d}] ctc {running / n:.3f}  {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    Trainer(CONFIG).fit()
