"""Lets a script's own loop take steps that another script has recorded, and tells when it is done."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.batch_use import BatchUse
from workshop.probe.hooks import TrainingHooks
from workshop.probe.internals import batches_yielded
from workshop.probe.messages import Recomputation
from workshop.probe.optimizers import parameters_of
from workshop.probe.recomputation import Attempts
from workshop.probe.retaken_step import RetakenStep, Taken
from workshop.probe.training_state import TrainingState


class Retaking:
    """Replaces what the loop works on, attempt by attempt, until all that was asked for has been taken.

    Args:
        attempts: the attempts, which end with the result.
        hooks: hand over batches, inputs and targets meanwhile.
        state: returns the models and optimizers of this script.
        number_of: returns the number of a model, 0 for the one that is followed; None for one of no interest.
        batches: the batch that was handed out last, whether the loop loads ahead, and whether shapes vary.
        stepped: the parameters that a step moves: when all have been stepped, it is over.
        trains: returns whether what is called now is of the training.
    """

    def __init__(
        self,
        attempts: Attempts,
        hooks: TrainingHooks,
        state: Callable[[], TrainingState],
        number_of: Callable[[nn.Module], int | None],
        batches: BatchUse,
        stepped: set[nn.Parameter],
        trains: Callable[[], bool],
    ) -> None:
        self._attempts, self._hooks, self._state, self._number_of = attempts, hooks, state, number_of
        self._batches, self._to_step, self._trains = batches, stepped, trains
        self._stepped: set[nn.Parameter] = set()
        self._step: RetakenStep  # of the present attempt; nothing is asked of it once there is a result
        self.attempts = 0
        """How many times the loop has begun to take a recorded step."""
        self.result: Recomputation | None = None
        """What came of all attempts; None while they last."""
        self._next()

    def _next(self, taken: Taken | None = None) -> None:
        """Begin the next attempt, given what came of the one before, or gather the result."""
        try:
            attempt = self._attempts.send(taken) if taken else next(self._attempts)
        except StopIteration as end:
            self.result = end.value
        except Exception as error:  # as of a record that cannot be read
            self.result = Recomputation(error=f"{type(error).__name__}: {error}")
        else:
            self.attempts += 1
            self._stepped = set()
            self._step = RetakenStep(
                attempt, self._state(), self._batches.last, self._batches.is_plain, self._batches.varies
            )
        self._hooks.audience.handover = None if self.result else self

    def batch(self, iterator: Any) -> Any:
        """Return the batch that a DataLoader hands out; None for its own."""
        is_of_training = self._trains() and self._hooks.clock.is_training_thread()
        return self._step.batch(batches_yielded(iterator) > 0) if is_of_training else None

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what a model is called with, as a tuple and a dictionary; None for what it has."""
        number = self._number_of(module)
        if number is None or not self._trains():
            return None
        return self._step.enter(number, module, inputs, options)

    def targets(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return the targets of a loss; None for what they are."""
        return self._step.targets(targets) if self._trains() else None

    def on_backward(self, loss: Any) -> None:
        """Note the loss."""
        self._step.on_backward(loss)

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Note the gradients, and replace them by those that were recorded."""
        self._step.before_optimizer(optimizer)

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """Note what has been stepped."""
        self._step.after_optimizer(optimizer)
        self._stepped |= set(parameters_of(optimizer))

    def begin_step(self) -> None:
        """End the attempt if its step is over: another one begins."""
        if self._stepped >= self._to_step:
            self._next(self._step.end())
