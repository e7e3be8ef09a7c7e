"""One training step, recorded in one process and computed over again in another."""

import copy
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

Share = tuple[torch.Tensor, torch.Tensor | None, float, float]
"""A rank's batch and targets, the weight of its gradient, and its part of all items."""


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

    def on_loss(self, targets: torch.Tensor | None, loss: torch.Tensor) -> None:
        """Remember the targets, if there are any, and what the loss function made of them."""
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
        path = self.folder / f"step-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def recompute(
    samples: Sequence[Path],
    model: nn.Module,
    optimizer: Optimizer,
    loss: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Take a recorded step again, with this model, loss function and kind of optimizer.

    Args:
        samples: the step as each of the ranks recorded it that took it together; one, where there is but one process.
        model: the one to compute with.
        optimizer: of its kind.
        loss: the function, and what it is given beside output and targets.

    Returns:
        "loss" and "recorded_loss", of the whole batch, and "update_error": the length of the difference between the
        recorded change of all parameters and the one computed here, over the length of the latter; "apart", how far
        the ranks' parameters differ. Or "error", why nothing was computed.
    """
    device = next(model.parameters()).device
    records = [torch.load(sample, map_location=device, weights_only=True) for sample in samples]
    shapes = [parameter.shape for parameter in model.parameters()]
    if any([value.shape for value in record["before"]] != shapes for record in records):
        return {"error": "the model has other parameters"}
    tried = [_take(shares, records[0], model, optimizer, loss) for shares in _ways_to_share(records)]
    items = sum(len(record["batch"]) for record in records)
    recorded = sum(float(record["loss"].mean()) * len(record["batch"]) / items for record in records)
    best = min(tried, key=lambda each: each["update_error"])
    return best | {"recorded_loss": recorded, "apart": max([0.0, *(_apart(records[0], each) for each in records[1:])])}


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How far the parameters of two ranks are from each other, before and after the step; relative to the largest."""
    pairs = zip([*one["before"], *one["after"]], [*other["before"], *other["after"]], strict=True)
    return max(float((a - b).abs().max() / a.abs().max().clamp_min(1e-12)) for a, b in pairs)


def _ways_to_share(records: list[dict[str, Any]]) -> list[list[Share]]:
    """What ranks may make of a batch that they share: they differ by batch norm, and where one has an item more."""
    shares = [(record["batch"], record["targets"]) for record in records]
    items = sum(len(batch) for batch, _ in shares)
    of_items = [(batch, targets, len(batch) / items, len(batch) / items) for batch, targets in shares]
    if len(shares) == 1:
        return [of_items]
    of_ranks = [(batch, targets, 1 / len(shares), part) for batch, targets, _, part in of_items]
    whole = [(torch.cat([batch for batch, _ in shares]), torch.cat([targets for _, targets in shares]), 1.0, 1.0)]
    return [of_items, of_ranks, whole]


def _take(
    shares: list[Share],
    record: dict[str, Any],
    model: nn.Module,
    optimizer: Optimizer,
    loss: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """The step, with the gradients of the shares of its batch added up."""
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
    function, args, options = loss
    total = 0.0
    for batch, targets, weight, part in shares:
        value = function(own(batch), targets, *args, **options)
        (value * weight).backward()
        total += float(value.detach()) * part
    stepper.step()

    difference = change_made = 0.0
    with torch.no_grad():
        for parameter, before, after in zip(parameters, record["before"], record["after"], strict=True):
            change = parameter - before
            difference += float(torch.sum((after - before - change) ** 2))
            change_made += float(torch.sum(change**2))
    return {"loss": total, "update_error": (difference / change_made) ** 0.5 if change_made else 0.0}


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
