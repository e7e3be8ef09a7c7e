"""What hears of a training, from the hooks into it."""

from __future__ import annotations  # torch is not loaded for its names

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim.optimizer import Optimizer
    from torch.utils.data import DataLoader

    from workshop.probe.messages import SetStage


class Listener:
    """Hears of what a training does. A method that is not overridden does nothing.

    An exception that a method raises does not reach the script: either this listener alone gives up, or the hooks are
    removed, and all listeners are told.
    """

    def gives_up_alone(self, error: Exception) -> bool:
        """Give up after a fault of this listener, and return True, if the others can go on without it."""
        return False

    def on_fault(self, fault: str) -> None:
        """A listener, or the hooks themselves, have failed, and this is the last call."""

    def goes_on_in_fork(self) -> bool:
        """Return whether to go on in this process, which was forked off the one that was watched, to train."""
        return False

    def on_begin(self) -> None:
        """The first of all calls in this process is about to come: it trains, or loads, or uses a model."""

    def on_stage(self, stage: SetStage) -> None:
        """Another stage of a measurement has begun."""

    def on_loader_start(self, loader: DataLoader[Any]) -> None:
        """`iter(loader)` is about to run."""

    def before_batch(self) -> None:
        """A DataLoader is asked for a batch."""

    def on_batch(self, batch: Any) -> None:
        """A DataLoader, or the batch store, has handed out a batch."""

    def on_copy(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """The loop has copied this tensor to a device, where it is the result."""

    def on_pageable_copy(self, tensor: torch.Tensor, device: torch.device, has_workers: bool) -> None:
        """The loop has copied a tensor to a GPU from memory that is not pinned, the largest one so far."""

    def before_forward(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        """The script is about to call a module with these arguments."""

    def before_model(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float) -> None:
        """The first model that is trained is about to be called with gradients, as it is so often in a step."""

    def before_validation(
        self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any], times: float
    ) -> None:
        """A model is about to be called in a validation, as models are so often in a step."""

    def after_forward(self, module: nn.Module, output: Any) -> None:
        """The module has been called; the output is None if it has raised an exception."""

    def on_loss(self, function: Callable[..., Any], args: Any, options: dict[str, Any], loss: torch.Tensor) -> None:
        """A loss function has been called with these arguments."""

    def on_backward(self, tensors: Any) -> None:
        """`backward` is about to run from these tensors."""

    def after_backward(self) -> None:
        """`backward` has run."""

    def on_adaptive_schedule(self) -> None:
        """A learning rate is adapted to how the training goes."""

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """An optimizer is about to step."""

    def after_optimizer(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped."""

    def on_skipped_step(self, optimizer: Optimizer) -> None:
        """A gradient scaler has left out a step of an optimizer, as its gradients are not finite."""

    def on_step_end(self, steps: int) -> None:
        """A training step is over, as the `StepCounter` counts them; or some that were not counted before."""


def hears(listener: Listener, method: str) -> bool:
    """Return whether a listener does something in one of its methods."""
    own = getattr(listener, method)
    return getattr(own, "__func__", own) is not getattr(Listener, method)


def tell(listeners: Iterable[Listener], method: str, *about: Any) -> list[Listener]:
    """Call a method of each listener, and return those that have given up: below this function, the workshop works."""
    fallen = []
    for listener in listeners:
        try:
            getattr(listener, method)(*about)
        except Exception as error:
            if not listener.gives_up_alone(error):
                raise
            fallen.append(listener)
    return fallen


TELL = tell.__code__.co_name, tell.__code__.co_filename
"""The name and the file of that function, as stacks have them."""
