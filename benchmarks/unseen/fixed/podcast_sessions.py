"""Guesses the episode that a listener plays next in a session, with a trainer and callbacks."""

import time

import torch
from torch import nn

EPISODES, SESSION = 4000, 12


class Callback:
    def on_epoch_start(self, trainer):
        pass

    def on_step(self, trainer, logits, targets):
        pass

    def on_epoch_end(self, trainer):
        pass


class LossMeter(Callback):
    def on_epoch_start(self, trainer):
        self.total, self.steps = 0.0, 0

    def on_step(self, trainer, logits, targets):
        self.total += trainer.loss.item()
        self.steps += 1

    def on_epoch_end(self, trainer):
        trainer.report["loss"] = self.total / self.steps


class ReciprocalRank(Callback):
    """Mean reciprocal rank of the episode that was played."""

    def on_epoch_start(self, trainer):
        self.total, self.count = 0.0, 0

    def on_step(self, trainer, logits, targets):
        logits = logits.detach()
        rank = (logits > logits.gather(1, targets[:, None])).sum(dim=1) + 1
        self.total += rank.reciprocal().sum().item()
        self.count += len(targets)

    def on_epoch_end(self, trainer):
        trainer.report["mrr"] = self.total / self.count


class Printer(Callback):
    def on_epoch_start(self, trainer):
        self.started = time.time()

    def on_epoch_end(self, trainer):
        values = ", ".join(f"{name} {value:.4f}" for name, value in trainer.report.items())
        print(f"epoch {trainer.epoch}: {values} ({time.time() - self.started:.1f} s)")


class Trainer:
    def __init__(self, model, sessions, targets, callbacks, batch_size=192, lr=2e-3):
        self.model, self.callbacks, self.batch_size = model, callbacks, batch_size
        self.sessions, self.targets = sessions, targets
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)
        self.report, self.epoch = {}, 0

    def tell(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def fit(self, epochs):
        for self.epoch in range(epochs):
            self.tell("on_epoch_start")
            for rows in torch.randperm(len(self.targets)).split(self.batch_size):
                self.train_step(self.sessions[rows], self.targets[rows])
            self.tell("on_epoch_end")

    def train_step(self, played, targets):
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(played)
        self.loss = nn.functional.cross_entropy(logits, targets)
        self.loss.backward()
        self.optimizer.step()
        self.tell("on_step", logits, targets)


class SessionModel(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.episodes = nn.Embedding(EPISODES, dim)
        self.mix = nn.Linear(SESSION * dim, dim)
        self.bias = nn.Parameter(torch.zeros(EPISODES))

    def forward(self, played):
        state = torch.tanh(self.mix(self.episodes(played).flatten(1)))
        return state @ self.episodes.weight.T + self.bias


def listen(count=40_000):
    """Sessions in which most listeners go on with the same show."""
    show = torch.randint(0, EPISODES // 40, (count, 1)) * 40
    played = show + torch.randint(0, 40, (count, SESSION + 1))
    return played[:, :-1].contiguous(), played[:, -1].contiguous()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(SessionModel(), *listen(), callbacks=[LossMeter(), ReciprocalRank(), Printer()])
    trainer.fit(epochs=500)
