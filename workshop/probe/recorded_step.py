"""One training step, recorded in one process and recomputed in another."""

import copy
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.wire import Recomputation


@dataclass(frozen=True)
class LossFunction:
    """A loss function, and what it is given beside the model's output and the targets."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, output: Any, targets: torch.Tensor | None) -> torch.Tensor:
        """Return the loss of an output."""
        return self.function(output, targets, *self.args, **self.options)


@dataclass(frozen=True)
class _Share:
    """What one rank contributes to a step."""

    batch: torch.Tensor
    targets: torch.Tensor | None
    weight: float
    """The factor of its gradient."""
    part: float
    """Its part of all items, from 0 to 1."""


class StepRecorder:
    """Records the one step of an epoch that the judge asks for: all that it depends on, and what came of it."""

    def __init__(self, folder: Path, sample_step: int | None) -> None:
        self.folder, self.sample_step = folder, sample_step
        self.number = 0
        self.batch: torch.Tensor | None = None
        self.targets: torch.Tensor | None = None
        self.loss: torch.Tensor | None = None
        self.record: dict[str, Any] = {}

    def wants(self, step: int) -> bool:
        """Return whether that step of the epoch is the one."""
        return step == self.sample_step

    def before_forward(self, batch: torch.Tensor) -> None:
        """Keep the batch: which step it belongs to is known only when the optimizer steps."""
        if self.sample_step is not None:
            self.batch, self.targets, self.loss = batch.detach().clone(), None, None

    def on_loss(self, targets: torch.Tensor | None, loss: torch.Tensor) -> None:
        """Keep the targets, if there are any, and the loss."""
        if self.sample_step is not None:
            self.targets, self.loss = None if targets is None else targets.detach().clone(), loss.detach().clone()

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
        if any(record.get(name) is None for name in ("batch", "loss", "after")):
            return None
        self.number += 1
        path = self.folder / f"step-{os.getpid()}-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def recompute(samples: Sequence[Path], model: nn.Module, optimizer: Optimizer, loss: LossFunction) -> Recomputation:
    """Take a recorded step again, from the parameters and the optimizer's state that were recorded.

    Args:
        samples: the files of the step: one for each rank that took part in it.
        model: the model to compute with.
        optimizer: a new one of its class and with its settings takes the step.
        loss: the loss function.
    """
    device = next(model.parameters()).device
    records = [torch.load(sample, map_location=device, weights_only=True) for sample in samples]
    shapes = [parameter.shape for parameter in model.parameters()]
    if any([value.shape for value in record["before"]] != shapes for record in records):
        return Recomputation(error="the model has other parameters")
    tried = [_take(shares, records[0], model, optimizer, loss) for shares in _ways_to_share(records)]
    total, update_error = min(tried, key=lambda each: each[1])
    items = sum(len(record["batch"]) for record in records)
    recorded = sum(float(record["loss"].mean()) * len(record["batch"]) / items for record in records)
    apart = max([0.0, *(_apart(records[0], each) for each in records[1:])])
    return Recomputation(None, total, recorded, update_error, apart)


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How far the parameters of two ranks are from each other, before and after the step; relative to the largest."""
    pairs = zip([*one["before"], *one["after"]], [*other["before"], *other["after"]], strict=True)
    return max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-12)) for a, b in pairs)


def _ways_to_share(records: list[dict[str, Any]]) -> list[list[_Share]]:
    """The ways in which ranks may share a batch: they differ by batch norm, and where one rank has an item more."""
    shares = [(record["batch"], record["targets"]) for record in records]
    items = sum(len(batch) for batch, _ in shares)
    of_items = [_Share(batch, targets, len(batch) / items, len(batch) / items) for batch, targets in shares]
    if len(shares) == 1:
        return [of_items]
    of_ranks = [_Share(each.batch, each.targets, 1 / len(shares), each.part) for each in of_items]
    whole = [_Share(torch.cat([batch for batch, _ in shares]), torch.cat([each for _, each in shares]), 1.0, 1.0)]
    return [of_items, of_ranks, whole]


def _take(
    shares: list[_Share], record: dict[str, Any], model: nn.Module, optimizer: Optimizer, loss: LossFunction
) -> tuple[float, float]:
    """Take the step with the gradients of the shares of its batch added up; return the loss and the update error."""
    own = copy.deepcopy(model).train()
    parameters = list(own.parameters())
    accepted = inspect.signature(type(optimizer).__init__).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    stepper = type(optimizer)(parameters, **settings)
    with torch.no_grad():
        for parameter, value, state in zip(parameters, record["before"], record["state"], strict=True):
            parameter.copy_(value)
            parameter.grad = None
            stepper.state[parameter].update(state)
    total = 0.0
    for share in shares:
        value = loss(own(share.batch), share.targets)
        (value * share.weight).backward()
        total += float(value.detach()) * share.part
    stepper.step()

    difference = change_made = 0.0
    with torch.no_grad():
        for parameter, before, after in zip(parameters, record["before"], record["after"], strict=True):
            change = parameter - before
            difference += float(torch.sum((after - before - change) ** 2))
            change_made += float(torch.sum(change**2))
    return total, (difference / change_made) ** 0.5 if change_made else 0.0


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
