"""A stream without a length, spread over two workers, batched by the data set itself, and LBFGS with its closure."""

import itertools
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        for number in itertools.count(worker.id, worker.num_workers):
            time.sleep(0.1)
            x = torch.arange(32.0).add(number).div(100).unsqueeze(1)
            yield x, 2 * x + 1


if __name__ == "__main__":
    line = torch.nn.Linear(1, 1)
    optimizer = torch.optim.LBFGS(line.parameters(), max_iter=4)
    stream = iter(DataLoader(Stream(), batch_size=None, num_workers=2))
    while True:
        x, y = next(stream)

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(line(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
