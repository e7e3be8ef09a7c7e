"""One training step, recorded in one process and recomputed in another."""

import copy
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
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
        self.record: dict[str, Any] = {}

    def wants(self, step: int) -> bool:
        """Return whether that step of the epoch is the one."""
        return step == self.sample_step

    def before_forward(self, batch: torch.Tensor, model: nn.Module) -> None:
        """Copy what enters the model, and the buffers that the forward pass may change."""
        self.record |= {"batch": batch.detach().clone(), "targets": None, "loss": None, "buffers": _buffers(model)}

    def on_loss(self, targets: torch.Tensor | None, loss: torch.Tensor) -> None:
        """Copy the targets, if there are any, and the loss."""
        self.record["targets"] = None if targets is None else targets.detach().clone()
        self.record["loss"] = loss.detach().clone()

    def before_step(self, parameters: list[nn.Parameter]) -> None:
        """Copy the parameters."""
        self.record["before"] = _clones(parameters)
        self.record["state"] = [{} for _ in parameters]

    def keep_state(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> None:
        """Copy the state of an optimizer that is about to step."""
        for number, parameter in enumerate(parameters):
            if parameter in optimizer.state:
                self.record["state"][number] = _copied(optimizer.state[parameter])

    def after_step(self, parameters: list[nn.Parameter], model: nn.Module) -> None:
        """Copy what became of the parameters and the buffers."""
        self.record |= {"after": _clones(parameters), "buffers_after": _buffers(model)}

    def save(self) -> str | None:
        """Write the record, if there is a whole one, and return its file's name."""
        record, self.record = self.record, {}
        if any(record.get(name) is None for name in ("batch", "loss", "after")):
            return None
        self.number += 1
        path = self.folder / f"step-{os.getpid()}-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def recompute(
    samples: Sequence[Path], model: nn.Module, optimizers: Sequence[Optimizer], loss: LossFunction
) -> Recomputation:
    """Take a recorded step again, from the parameters and the optimizer's state that were recorded.

    Args:
        samples: the files of the step: one for each rank that took part in it.
        model: the model to compute with.
        optimizers: new ones of their classes and with their settings take the step.
        loss: the loss function.
    """
    device = next(model.parameters()).device
    records = [torch.load(sample, map_location=device, weights_only=True) for sample in samples]
    if any(_shapes(record["before"]) != _shapes(model.parameters()) for record in records):
        return Recomputation(error="the model has other parameters")
    tried = [_take(shares, records[0], model, optimizers, loss) for shares in _ways_to_share(records)]
    total, update_error, buffer_error = min(tried, key=lambda each: each[1])
    items = sum(len(record["batch"]) for record in records)
    recorded = sum(float(record["loss"].mean()) * len(record["batch"]) / items for record in records)
    apart = max([0.0, *(_apart(records[0], each) for each in records[1:])])
    return Recomputation(None, total, recorded, update_error, buffer_error if len(records) == 1 else 0.0, apart)


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How far the parameters of two ranks are from each other, before and after the step; relative to the largest."""
    pairs = zip([*one["before"], *one["after"]], [*other["before"], *other["after"]], strict=True)
    return max(_relative_error(a, b) for a, b in pairs)


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
    shares: list[_Share],
    record: dict[str, Any],
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    loss: LossFunction,
) -> tuple[float, float, float]:
    """Take the step with the gradients of the shares of its batch added up; return the loss and the two errors."""
    own = copy.deepcopy(model).train()
    parameters = list(own.parameters())
    numbers = {parameter: number for number, parameter in enumerate(model.parameters())}
    steppers = [_like(optimizer, numbers, parameters) for optimizer in optimizers]
    with torch.no_grad():
        for parameter, value in zip(parameters, record["before"], strict=True):
            parameter.copy_(value)
            parameter.grad = None
        if _shapes(own.buffers()) == _shapes(record["buffers"]):
            for buffer, value in zip(own.buffers(), record["buffers"], strict=True):
                buffer.copy_(value)
    for stepper in steppers:
        for parameter, state in zip(parameters, record["state"], strict=True):
            if any(parameter is each for group in stepper.param_groups for each in group["params"]):
                stepper.state[parameter].update(state)
    total = 0.0
    for share in shares:
        value = loss(own(share.batch), share.targets)
        (value * share.weight).backward()
        total += float(value.detach()) * share.part
    for stepper in steppers:
        stepper.step()

    difference = change_made = 0.0
    with torch.no_grad():
        for parameter, before, after in zip(parameters, record["before"], record["after"], strict=True):
            change = parameter - before
            difference += float(torch.sum((after - before - change) ** 2))
            change_made += float(torch.sum(change**2))
    update_error = (difference / change_made) ** 0.5 if change_made else 0.0
    return total, update_error, _buffer_error(list(own.buffers()), record["buffers_after"])


def _like(optimizer: Optimizer, numbers: dict[nn.Parameter, int], parameters: list[nn.Parameter]) -> Optimizer:
    """Return a new optimizer of the same class, with the same groups, for other parameters."""
    accepted = inspect.signature(type(optimizer).__init__).parameters
    groups = [
        {name: value for name, value in group.items() if name in accepted and name != "params"}
        | {"params": [parameters[numbers[each]] for each in group["params"] if each in numbers]}
        for group in optimizer.param_groups
    ]
    return type(optimizer)([group for group in groups if group["params"]])


def _buffer_error(computed: list[torch.Tensor], recorded: list[torch.Tensor]) -> float:
    """The largest difference of a buffer, relative to its largest value; 1 if they are not of the same shapes."""
    if _shapes(computed) != _shapes(recorded):
        return 1.0
    pairs = zip(computed, recorded, strict=True)
    return max((_relative_error(a, b) for a, b in pairs if a.is_floating_point() and a.numel()), default=0.0)


def _relative_error(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, relative to the largest value of the one."""
    return float((one - other).abs().max() / one.abs().max().clamp_min(1e-12))


def _shapes(tensors: Iterable[torch.Tensor]) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors]


def _clones(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _buffers(model: nn.Module) -> list[torch.Tensor]:
    return _clones(model.buffers())


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
