"""One training step, recorded as it is taken."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

MAX_VALUES = 4096
"""The number of values of a tensor that are kept of what a step has made of it, for the most part."""


@dataclass(frozen=True)
class LossFunction:
    """A loss function, and what it is given beside the model's output and the targets."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, output: Any, targets: torch.Tensor | None) -> torch.Tensor:
        """Return the loss of an output."""
        return self.function(output, targets, *self.args, **self.options)


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
        device = batch.device.type
        self.record |= {
            "batch": batch.detach().clone(),
            "targets": None,
            "loss": None,
            "buffers": _clones(model.buffers()),
        }
        self.record["autocast"] = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        self.record["random"] = torch.get_rng_state(), torch.cuda.get_rng_state() if device == "cuda" else None

    def on_loss(self, targets: torch.Tensor | None, loss: torch.Tensor) -> None:
        """Copy the targets, if there are any, and the loss."""
        self.record["targets"] = None if targets is None else targets.detach().clone()
        self.record["loss"] = loss.detach().clone()

    def before_optimizer(self, parameters: list[nn.Parameter], optimizer: Optimizer, is_first: bool) -> None:
        """Copy the state and the settings of an optimizer that is about to step; before the first, the parameters."""
        if is_first:
            nothing = {"state": [{} for _ in parameters], "gradients": [None for _ in parameters], "groups": []}
            self.record |= {"before": _clones(parameters), **nothing}
        numbers = {parameter: number for number, parameter in enumerate(parameters)}
        groups = [
            {name: value for name, value in group.items() if name != "params"}
            | {"params": [numbers[each] for each in group["params"] if each in numbers]}
            for group in optimizer.param_groups
        ]
        self.record["groups"].append((type(optimizer).__name__, groups))
        for number, parameter in enumerate(parameters):
            if parameter in optimizer.state:
                self.record["state"][number] = copied(optimizer.state[parameter])

    def after_optimizer(self, parameters: list[nn.Parameter], optimizer: Optimizer) -> None:
        """Copy the gradients that an optimizer has stepped with; a closure computes them in the step itself."""
        own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        for number, parameter in enumerate(parameters):
            if parameter in own and parameter.grad is not None:
                self.record["gradients"][number] = parameter.grad.detach().clone()

    def after_step(self, parameters: list[nn.Parameter], model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Copy the buffers, and some values of what became of the parameters and of the optimizers' state."""
        self.record |= {"after": some_values(parameters, optimizers), "buffers_after": _clones(model.buffers())}

    def save(self) -> str | None:
        """Write the record, if there is a whole one, and return its file's name."""
        record, self.record = self.record, {}
        if any(record.get(name) is None for name in ("batch", "loss", "after")):
            return None
        self.number += 1
        path = self.folder / f"step-{os.getpid()}-{self.number}.pt"
        torch.save(record, path)
        return str(path)


def some_values(parameters: Sequence[nn.Parameter], optimizers: Sequence[Optimizer]) -> list[dict[str, torch.Tensor]]:
    """Some values of each parameter, and of what the optimizers have in their state for it."""
    found = [{"parameter": some_of(parameter)} for parameter in parameters]
    for number, parameter in enumerate(parameters):
        for optimizer in optimizers:
            state = optimizer.state.get(parameter, {})
            found[number] |= {name: some_of(value) for name, value in state.items() if isinstance(value, torch.Tensor)}
    return found


def some_of(tensor: torch.Tensor) -> torch.Tensor:
    """Some values of a tensor, evenly spaced."""
    flat = tensor.detach().flatten()
    return flat[:: -(-flat.numel() // MAX_VALUES) or 1].clone()


def _clones(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def copied(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of what an optimizer knows of a parameter."""
    return {name: value.detach().clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
