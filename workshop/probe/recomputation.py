"""A recorded step is taken once more, in another process, to see whether the same comes out."""

import copy
import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from workshop.probe.messages import Recomputation
from workshop.probe.recorded_step import LossFunction, copied, some_of, some_values

ROUNDING_TRIALS = 3
"""So often the parameters and the batch are rounded at random, to see what that makes of the gradients."""

MIN_NOISE = 2**-24
"""The least noise of a gradient, relative to its length: half a unit in the last place."""


@dataclass(frozen=True)
class _Share:
    """What one rank contributes to a step."""

    batch: torch.Tensor
    targets: torch.Tensor | None
    weight: float
    """The factor of its gradient."""
    part: float
    """Its part of all items, from 0 to 1."""


@dataclass(frozen=True)
class _Computed:
    """The results of a batch with the parameters before a step."""

    shares: list[_Share]
    loss: float
    gradients: list[torch.Tensor]
    buffers: list[torch.Tensor]


def recompute(
    samples: Sequence[Path], model: nn.Module, optimizers: Sequence[Optimizer], loss: LossFunction
) -> Recomputation:
    """Take a recorded step again: the gradients from the batch, and what the optimizer makes of those recorded.

    Args:
        samples: the files of the step: one for each rank that took part in it.
        model: the model to compute with.
        optimizers: new ones of their classes take the step, with the settings that were recorded.
        loss: the loss function.
    """
    device = next(model.parameters()).device
    records = [torch.load(sample, map_location=device, weights_only=True) for sample in samples]
    if any(_shapes(record["before"]) != _shapes(model.parameters()) for record in records):
        return Recomputation(error="the model has other parameters")
    recorded = _without_none(records[0]["gradients"], records[0]["before"])
    tried = [_computed(shares, records[0], model, loss) for shares in _ways_to_share(records)]
    best = min(tried, key=lambda each: math.hypot(*_distances(each.gradients, recorded)))
    off, lengths = _distances(best.gradients, recorded), [float(each.norm()) for each in best.gradients]
    noise = [MIN_NOISE * length for length in lengths]
    for _ in range(ROUNDING_TRIALS if any(off) else 0):
        rounded = _computed(best.shares, records[0], model, loss, rounding=_rounding(records[0]))
        noise = list(map(max, noise, _distances(best.gradients, rounded.gradients)))
    items = sum(len(record["batch"]) for record in records)
    step_error, state_error = _errors_of_step(records[0], optimizers)
    return Recomputation(
        loss=best.loss,
        recorded_loss=sum(float(record["loss"].mean()) * len(record["batch"]) / items for record in records),
        gradient_error=math.hypot(*off) / max(math.hypot(*lengths), 1e-30),
        gradient_errors=[error / max(level, 1e-30) for error, level in zip(off, noise, strict=True)],
        step_error=step_error,
        state_error=state_error,
        buffer_error=_buffer_error(best.buffers, records[0]["buffers_after"]) if len(records) == 1 else 0.0,
        apart=max([0.0, *(_apart(records[0], each) for each in records[1:])]),
    )


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How far the parameters of two ranks are from each other, before and after the step; relative to the largest."""
    both = ([*each["before"], *(some["parameter"] for some in each["after"])] for each in (one, other))
    return max(_relative_error(a, b) for a, b in zip(*both, strict=True))


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


def _computed(
    shares: list[_Share], record: dict[str, Any], model: nn.Module, loss: LossFunction, rounding: float = 0.0
) -> _Computed:
    """Compute the gradients of a step's batch, with the gradients of its shares added up.

    Args:
        shares: what the batch consists of.
        record: the parameters and buffers before the step.
        model: the model to compute with.
        loss: the loss function.
        rounding: move each parameter and each input by up to this times its value.
    """
    copied_model = copy.deepcopy(model).train()
    device, dtype, is_enabled = record["autocast"]
    total = 0.0
    with torch.random.fork_rng([shares[0].batch.device] if device == "cuda" else []):
        with torch.no_grad():
            for parameter, value in zip(copied_model.parameters(), record["before"], strict=True):
                parameter.copy_(_rounded(value, rounding))
                parameter.grad = None
            if _shapes(copied_model.buffers()) == _shapes(record["buffers"]):
                for buffer, value in zip(copied_model.buffers(), record["buffers"], strict=True):
                    buffer.copy_(value)
        for share in shares:
            batch = _rounded(share.batch, rounding)
            _set_random_state(*record["random"])  # dropout comes out as it did
            with torch.autocast(device, dtype, is_enabled):
                value = loss(copied_model(batch), share.targets)
            (value * share.weight).backward()
            total += float(value.detach()) * share.part
    gradients = _without_none([parameter.grad for parameter in copied_model.parameters()], record["before"])
    return _Computed(shares, total, gradients, list(copied_model.buffers()))


def _rounded(values: torch.Tensor, rounding: float) -> torch.Tensor:
    if not rounding or not values.is_floating_point():
        return values
    return values * (1 + rounding * (2 * torch.rand_like(values) - 1))


def _set_random_state(on_cpu: torch.Tensor, on_cuda: torch.Tensor | None) -> None:
    torch.set_rng_state(on_cpu.cpu())
    if on_cuda is not None:
        torch.cuda.set_rng_state(on_cuda.cpu())


def _rounding(record: dict[str, Any]) -> float:
    """The relative error of a rounded number. On CUDA, convolutions may round to TensorFloat-32, of 10 bits."""
    device, dtype, is_enabled = record["autocast"]
    precision = torch.finfo(dtype if is_enabled else record["before"][0].dtype).eps
    return max(precision, 2**-11) if device == "cuda" and torch.backends.cudnn.allow_tf32 else precision


def _errors_of_step(record: dict[str, Any], optimizers: Sequence[Optimizer]) -> tuple[float, float]:
    """Have new optimizers step with the recorded gradients; return the errors of the parameters and of the state."""
    parameters = [nn.Parameter(value.clone()) for value in record["before"]]
    for parameter, gradient in zip(parameters, record["gradients"], strict=True):
        parameter.grad = gradient
    kinds = {type(optimizer).__name__: type(optimizer) for optimizer in optimizers}
    steppers = [_new(kinds[name], groups, parameters) for name, groups in record["groups"]]
    for stepper in steppers:
        for parameter, state in zip(parameters, record["state"], strict=True):
            if any(parameter is each for group in stepper.param_groups for each in group["params"]):
                stepper.state[parameter].update(copied(state))
        stepper.step()
    step_error = state_error = 0.0
    before = [some_of(value) for value in record["before"]]
    for old, one, other in zip(before, some_values(parameters, steppers), record["after"], strict=True):
        change = float((one["parameter"] - old).norm())
        rounding = float(old.norm()) * 2**-22
        difference = float((one["parameter"] - other["parameter"]).norm())
        step_error = max(step_error, max(difference - rounding, 0.0) / change if change else float(difference > 0))
        for name in one.keys() - {"parameter"}:
            wrong = one[name] - other[name].to(one[name]) if name in other else one[name]
            state_error = max(state_error, float(wrong.norm() / one[name].norm().clamp_min(1e-30)))
    return step_error, state_error


def _without_none(gradients: Sequence[torch.Tensor | None], parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Put zeros in place of gradients that do not exist."""
    pairs = zip(gradients, parameters, strict=True)
    return [torch.zeros_like(parameter) if gradient is None else gradient for gradient, parameter in pairs]


def _distances(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[float]:
    return [float((one - other).norm()) for one, other in zip(some, others, strict=True)]


def _new(kind: type[Optimizer], groups: list[dict[str, Any]], parameters: list[nn.Parameter]) -> Optimizer:
    """Return a new optimizer with recorded groups, which give the numbers of their parameters."""
    accepted = inspect.signature(kind).parameters
    accepted_groups = [
        {name: value for name, value in group.items() if name in accepted}
        | {"params": [parameters[number] for number in group["params"]]}
        for group in groups
        if group["params"]
    ]
    return kind(accepted_groups)


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
