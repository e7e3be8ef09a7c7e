"""One training step, recorded in one process and computed over again in another."""

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer


class StepRecorder:
    """Keeps all that a step depends on, and what came of it, for the one step of an epoch that the judge asks for."""

    def __init__(self, folder: Path, sample_step: int | None) -> None:
        self.folder, self.sample_step = folder, sample_step
        self.number = 0
        self.batch: torch.Tensor | None = None
        self.targets: torch.Tensor | None = None
        self.loss: torch.Tensor | None = None
        self.record: dict[str, Any] = {}

    def wants(self, step: int) -> bool:
        """Whether that step of the epoch is the one."""
        return step == self.sample_step

    def before_forward(self, batch: torch.Tensor) -> None:
        """Remember the batch: which step it belongs to is known only when the optimizer steps."""
        if self.sample_step is not None:
            self.batch, self.targets, self.loss = batch.detach().clone(), None, None

    def on_loss(self, targets: torch.Tensor, loss: torch.Tensor) -> None:
        """Remember the targets, and what the loss function made of them."""
        if self.sample_step is not None:
            self.targets, self.loss = targets.detach().clone(), loss.detach().clone()

    def before_step(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> None:
        """Copy the parameters and the optimizer's state."""
        self.record = {
            "batch": self.batch,
            "targets": self.targets,
            "loss": self.loss,
            "before": [parameter.detach().clone() for parameter in parameters],
            "state": [_copied(optimizer.state.get(parameter, {})) for parameter in parameters],
        }

    def after_step(self, parameters: list[nn.Parameter]) -> None:
        """Copy what became of the parameters."""
        self.record["after"] = [parameter.detach().clone() for parameter in parameters]

    def save(self) -> str | None:
        """Write the record, if there is a whole one, and return its file's name."""
        record, self.record, self.batch = self.record, {}, None
        if any(record.get(name) is None for name in ("batch", "targets", "loss", "after")):
            return None
        self.number += 1
        path = self.folder / f"step-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def recompute(
    sample: Path,
    model: nn.Module,
    optimizer: Optimizer,
    loss: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Take a recorded step again, with this model, loss function and kind of optimizer.

    Returns:
        "loss" and "recorded_loss", and "update_error": the length of the difference between the recorded change of all
        parameters and the one computed here, over the length of the latter. Or "error", why nothing was computed.
    """
    device = next(model.parameters()).device
    record = torch.load(sample, map_location=device, weights_only=True)
    own = copy.deepcopy(model).train()
    parameters = list(own.parameters())
    if [p.shape for p in parameters] != [p.shape for p in record["before"]]:
        return {"error": "the model has other parameters"}
    accepted = inspect.signature(type(optimizer).__init__).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    stepper = type(optimizer)(parameters, **settings)
    with torch.no_grad():
        for parameter, value, state in zip(parameters, record["before"], record["state"], strict=True):
            parameter.copy_(value)
            parameter.grad = None
            stepper.state[parameter].update(state)
    function, args, options = loss
    value = function(own(record["batch"]), record["targets"], *args, **options)
    value.backward()
    stepper.step()

    difference = total = 0.0
    with torch.no_grad():
        for parameter, before, after in zip(parameters, record["before"], record["after"], strict=True):
            change = parameter - before
            difference += float(torch.sum((after - before - change) ** 2))
            total += float(torch.sum(change**2))
    return {
        "loss": float(value.detach()),
        "recorded_loss": float(record["loss"].mean()),
        "update_error": (difference / total) ** 0.5 if total else 0.0,
    }


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
