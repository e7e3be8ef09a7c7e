"""Recorded steps of another script are taken by the loop of this one, while it believes that it goes on training."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import batches_yielded
from workshop.probe.messages import Recomputation
from workshop.probe.noted_epoch import NotedEpoch
from workshop.probe.optimizers import parameters_of
from workshop.probe.recomputation import Attempts
from workshop.probe.retaken_step import RetakenStep, StepToTake, Taken


class Retaking:
    """Replaces what the loop works on, attempt by attempt, until all that was asked for has been taken.

    Args:
        attempts: the attempts, which end with the result.
        hooks: hand over batches, inputs and targets meanwhile.
        epoch: the models, the batches, and the parameters that a step moves: when all have been stepped, it is over.
    """

    def __init__(self, attempts: Attempts, hooks: TrainingHooks, epoch: NotedEpoch) -> None:
        self._attempts, self._hooks, self._epoch, self._training = attempts, hooks, epoch, epoch.training
        self._stepped: set[nn.Parameter] = set()
        self.step: RetakenStep  # of the present attempt; nothing is asked of it once there is a result
        self._attempt: StepToTake
        self._tries_left = 0  # of the present attempt, or of steps that are taken until the epoch is over
        self._other_passes = epoch.other_passes
        self._to_the_end = self._other_passes > 0 and not epoch.batches.is_plain
        self._source: Any = None  # the iterator of a DataLoader whose epoch has to come to its end
        self.attempts = 0  # that were begun
        self.result: Recomputation | None = None  # of all attempts; None while they last
        self.is_over = False  # there is a result, and an epoch that has begun meanwhile is at its end
        self._next()
        self._go_on()

    def _next(self, taken: Taken | None = None) -> None:
        """Go on to the next attempt, given what came of the one before, or gather the result."""
        try:
            self._attempt = self._attempts.send(taken) if taken else next(self._attempts)
        except StopIteration as end:
            self.result = end.value
        except Exception as error:  # as of a record that cannot be read
            self.result = Recomputation(error=f"{type(error).__name__}: {error}")
        self._tries_left = self._other_passes

    def _go_on(self) -> None:
        """Have the loop take the present attempt in its next step, or leave it alone if all is over."""
        ends = self._source is None or self._hooks.loading.epochs.is_over(self._source) or not self._tries_left
        self.is_over = self.result is not None and ends
        self._hooks.audience.handover = None if self.is_over else self
        if not self.is_over:
            self.attempts += 1
            self._stepped = set()
            self.step = RetakenStep(self._attempt, self._training.state(), self._epoch.batches)

    @property
    def told(self) -> Recomputation:
        """The result, with the number of attempts; it is asked for once all is over."""
        assert self.result
        return replace(self.result, attempts=self.attempts)

    def batch(self, iterator: Any) -> Any:
        """Return the batch that a DataLoader hands out; None for its own.

        A loop that loads ahead goes to the end of its epochs: its steps may depend on how many batches it has had.
        """
        epochs, has_begun = self._hooks.loading.epochs, batches_yielded(iterator) > 0
        if not (self._training.trains() and self._hooks.clock.is_training_thread()):
            return None
        if self._to_the_end:
            self._source = iterator
            if epochs.is_over(iterator):
                return None
        batch = self.step.batch(has_begun, self._hooks.loading.source)
        if self._to_the_end and batch is not None:
            epochs.replaced(iterator)
        return batch

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what a model is called with, as a tuple and a dictionary; None for what it has."""
        number = self._training.number_of(module)
        if number is None or not self._training.trains():
            return None
        return self.step.enter(number, module, inputs, options)

    def targets(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return the targets of a loss; None for what they are."""
        return self.step.targets(targets) if self._training.trains() else None

    def after_optimizer(self, optimizer: Optimizer, is_skipped: bool = False) -> None:
        """Note what has been stepped, or would have been but for a scaler, which leaves out the step."""
        if is_skipped:
            self.step.leave_out()
        else:
            self.step.after_optimizer(optimizer)
        self._stepped.update(parameters_of(optimizer))

    def begin_step(self) -> None:
        """End the attempt if its step is over: another one begins.

        Where the loop's steps have different numbers of passes, another of its steps may have as many as the recorded.
        """
        if not self._stepped >= self._epoch.last_stepped:
            return
        taken = self.step.end()
        if self.result or (self.step.has_other_passes and self._tries_left):
            self._tries_left -= 1
        else:
            self._next(taken)
        self._go_on()
