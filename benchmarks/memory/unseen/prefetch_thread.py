"""Speech-like frame classification; a background thread makes batches ahead of time."""

import queue
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAMES, MEL, PHONES = 100, 40, 20


class Producer(threading.Thread):
    def __init__(self, batch, seed=0):
        super().__init__(daemon=True)
        self.batch = batch
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(PHONES, MEL, generator=self.g)
        self.queue = queue.Queue()  # fault

    def make(self):
        y = torch.randint(0, PHONES, (self.batch, FRAMES // 5), generator=self.g)
        y = y.repeat_interleave(5, dim=1)
        x = self.proto[y] + torch.randn(self.batch, FRAMES, MEL, generator=self.g)
        return x, y

    def run(self):
        while True:
            self.queue.put(self.make())


class FrameNet(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.rnn = nn.GRU(MEL, h, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * h, PHONES)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    producer = Producer(batch=64)
    model = FrameNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    producer.start()
    correct = count = 0
    for step in range(10**6):
        x, y = producer.queue.get()
        logits = model(x)
        loss = F.cross_entropy(logits.transpose(1, 2), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        correct += (logits.argmax(-1) == y).sum().item()
        count += y.numel()
        if step < 3:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if step % 50 == 49:
            print(f"step {step} loss {loss.item():.4f} acc {correct / count:.3f}", flush=True)
            correct = count = 0


if __name__ == "__main__":
    main()
