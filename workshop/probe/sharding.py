"""What is shared out to the ranks of a run: each keeps, and steps, a part of one whole."""

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer


def inner_optimizer(optimizer: Optimizer) -> Optimizer:
    """Return the optimizer that steps this rank's part, inside of a `ZeroRedundancyOptimizer`; another one as it is.

    The outer one has all parameters, with the settings of the inner one, and no state.
    """
    return optimizer.optim if isinstance(optimizer, _kind("optim", "ZeroRedundancyOptimizer")) else optimizer


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of a tensor whose parts are on several ranks, as `fully_shard` makes them; another one as it is.

    The ranks wait for each other: all of them must ask.
    """
    return tensor.full_tensor() if isinstance(tensor, _kind("tensor", "DTensor")) else tensor


def shared_like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Share out values, all of which each rank has, as those of a tensor are; as they are if that is not shared out."""
    if not isinstance(tensor, kind := _kind("tensor", "DTensor")) or isinstance(values, kind):
        return values
    return sys.modules["torch.distributed.tensor"].distribute_tensor(values, tensor.device_mesh, tensor.placements)


def has_parts(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether there is such a tensor among these."""
    return any(isinstance(each, _kind("tensor", "DTensor")) for each in tensors)


def parts(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the parts of such tensors that are here."""
    return [each.to_local() if isinstance(each, _kind("tensor", "DTensor")) else each for each in tensors]


def is_flat(model: nn.Module) -> bool:
    """Return whether `FullyShardedDataParallel` has made one flat parameter of those in some module."""
    flat = _kind("fsdp", "FullyShardedDataParallel")
    return any(isinstance(module, flat) for module in model.modules())


def is_sharded(module: nn.Module) -> bool:
    """Return whether the parameters of a module are shared out to ranks, by either way that torch has."""
    return isinstance(module, (_kind("fsdp", "FSDPModule"), _kind("fsdp", "FullyShardedDataParallel")))


def _kind(module: str, name: str) -> Any:
    """A class of torch.distributed, if the script has loaded it; else no class."""
    return getattr(sys.modules.get(f"torch.distributed.{module}"), name, ())
