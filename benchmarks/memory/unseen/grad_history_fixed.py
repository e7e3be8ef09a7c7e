"""Multi-label tagging of bag-of-words documents, with a log of gradient noise."""

import logging
from collections import deque

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("tagger")


class GradientLog:
    def __init__(self, window=10):
        self.window = window
        self.rows = deque(maxlen=window)

    def record(self, step, model):
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        self.rows.append((step, flat))

    def noise(self):
        g = torch.stack([f for _, f in self.rows])
        return (g.var(0).sum() / g.mean(0).pow(2).sum()).item()


def documents(n, vocab=1200, tags=20):
    topic = torch.rand(tags, vocab).pow(8)
    y = (torch.rand(n, tags) < 0.12).float()
    rate = 0.02 + y @ topic
    return torch.poisson(rate).clamp_(max=5), y


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(6)
    x, y = documents(3000)
    loader = DataLoader(TensorDataset(x.to(torch.uint8), y), batch_size=256, shuffle=True)
    model = nn.Sequential(nn.Linear(1200, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 20))
    opt = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    crit = nn.BCEWithLogitsLoss()
    glog = GradientLog()
    step = 0
    for epoch in range(2000):
        total = 0.0
        for bx, by in loader:
            loss = crit(model(bx.float()), by)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            glog.record(step, model)
            opt.step()
            total += loss.item()
            if step < 3:
                log.info("step %d loss %.5f", step, loss.item())
            step += 1
        if epoch % 2 == 1:
            log.info("epoch %d loss %.4f gradient noise %.2f", epoch, total / len(loader), glog.noise())


if __name__ == "__main__":
    main()
